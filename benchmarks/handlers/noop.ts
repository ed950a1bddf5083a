import { defineHandler, Tensor } from '@onnxserve/handler-kit';

/** Sixteen numbers in, the same out: what the server itself costs. */
export default defineHandler({
  preprocess(request) {
    const { x } = request.json() as { x: number[] };
    return { x: new Tensor('FP32', [1, 16], Float32Array.from(x)) };
  },
  postprocess(outputs) {
    return { y: outputs['y']?.data };
  },
});
