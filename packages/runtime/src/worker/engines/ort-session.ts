import { join } from 'node:path';
import type { Datatype, NamedTensors, TensorSignature } from '@onnxserve/handler-kit';
import { Tensor } from '@onnxserve/handler-kit';
import * as ort from 'onnxruntime-node';
import type { SessionRequest } from './session.js';

/** onnxruntime's names of element types, and the protocol's. */
const datatypeOf: Record<string, Datatype> = {
  float32: 'FP32',
  float64: 'FP64',
  float16: 'FP16',
  int8: 'INT8',
  int16: 'INT16',
  int32: 'INT32',
  int64: 'INT64',
  uint8: 'UINT8',
  uint16: 'UINT16',
  uint32: 'UINT32',
  uint64: 'UINT64',
  bool: 'BOOL',
  string: 'BYTES',
};
const typeOf = Object.fromEntries(Object.entries(datatypeOf).map(([type, datatype]) => [datatype, type])) as Record<
  Datatype,
  ort.Tensor.Type
>;

/** `onnxruntime-node` in the calling thread: `create` and `run` block it. */
export class OrtSession {
  readonly inputs: readonly TensorSignature[];
  readonly outputs: readonly TensorSignature[];
  readonly providers: readonly string[];
  readonly #session: ort.InferenceSession;

  private constructor(session: ort.InferenceSession, providers: readonly string[]) {
    this.#session = session;
    this.inputs = session.inputMetadata.map(signature);
    this.outputs = session.outputMetadata.map(signature);
    this.providers = providers;
  }

  static async open(request: SessionRequest): Promise<OrtSession> {
    const providers = providersOf(request);
    if (!providers.includes('cuda'))
      return new OrtSession(await ort.InferenceSession.create(request.file, options(request, ['cpu'])), ['cpu']);
    const cuda = ort.listSupportedBackends().some((backend) => backend.name === 'cuda' && backend.bundled);
    try {
      if (!cuda) throw new Error('this build of onnxruntime-node has no CUDA provider');
      const session = await ort.InferenceSession.create(request.file, options(request, ['cuda', 'cpu']));
      return new OrtSession(session, ['cuda', 'cpu']);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      if (request.onnx.requireDevice === false) {
        return new OrtSession(await ort.InferenceSession.create(request.file, options(request, ['cpu'])), ['cpu']);
      }
      throw new ProviderMissingError(
        `The GPU cannot be used: ${why}. Install the CUDA provider (ONNXRUNTIME_NODE_INSTALL=cuda12 node node_modules/onnxruntime-node/script/install) ` +
          'and its libraries, set deviceType: cpu, or allow the CPU explicitly with onnx: { requireDevice: false } in model-config.yaml.',
      );
    }
  }

  async run(feeds: NamedTensors, outputs?: readonly string[]): Promise<NamedTensors> {
    const given: Record<string, ort.Tensor> = {};
    for (const name in feeds) given[name] = toOrt(feeds[name]!);
    const results = outputs === undefined ? await this.#session.run(given) : await this.#session.run(given, [...outputs]);
    const named: NamedTensors = {};
    for (const name in results) named[name] = fromOrt(results[name] as ort.Tensor);
    return named;
  }

  async release(): Promise<void> {
    await this.#session.release();
  }
}

/** The device that was asked for cannot be used, and nobody allowed another. */
export class ProviderMissingError extends Error {
  override readonly name = 'ProviderMissingError';
}

function providersOf(request: SessionRequest): readonly string[] {
  if (request.onnx.providers !== undefined && request.onnx.providers.length > 0) {
    return request.onnx.providers.map((name) => name.replace(/ExecutionProvider$/, '').toLowerCase());
  }
  return request.device.type === 'gpu' ? ['cuda', 'cpu'] : ['cpu'];
}

function options(request: SessionRequest, providers: readonly string[]): ort.InferenceSession.SessionOptions {
  const { onnx, device, threads } = request;
  const deviceId = device.id ?? 0;
  const session: Record<string, string> = { ...onnx.configEntries };
  return {
    executionProviders: providers.map((name) => (name === 'cuda' ? { name, deviceId } : name)),
    graphOptimizationLevel: onnx.graphOptimizationLevel ?? 'all',
    intraOpNumThreads: onnx.intraOpNumThreads ?? threads,
    interOpNumThreads: onnx.interOpNumThreads ?? 1,
    executionMode: onnx.executionMode ?? 'sequential',
    ...(onnx.enableCpuMemArena === undefined ? {} : { enableCpuMemArena: onnx.enableCpuMemArena }),
    ...(onnx.enableMemPattern === undefined ? {} : { enableMemPattern: onnx.enableMemPattern }),
    ...(onnx.enableProfiling === true ? { enableProfiling: true, profileFilePrefix: onnx.profileFilePrefix ?? 'onnxserve' } : {}),
    ...(onnx.logSeverityLevel === undefined ? {} : { logSeverityLevel: onnx.logSeverityLevel as 0 }),
    ...(onnx.customOpLibraries === undefined
      ? {}
      : { customOpLibraries: onnx.customOpLibraries.map((file) => join(request.directory, file)) }),
    extra: nested(session),
  } as ort.InferenceSession.SessionOptions;
}

/** The binding takes configuration entries as a tree: `session.intra_op.x` is `{session: {intra_op: {x}}}`. */
function nested(entries: Readonly<Record<string, string>>): Record<string, unknown> {
  const tree: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(entries)) {
    const parts = key.split('.');
    let at = tree;
    for (const part of parts.slice(0, -1)) at = (at[part] ??= {}) as Record<string, unknown>;
    at[parts.at(-1)!] = value;
  }
  return tree;
}

function signature(meta: ort.InferenceSession.ValueMetadata): TensorSignature {
  if (!meta.isTensor) throw new Error(`"${meta.name}" is not a tensor; sequences and maps are not supported`);
  const datatype = datatypeOf[meta.type];
  if (datatype === undefined) throw new Error(`"${meta.name}" has the element type ${meta.type}, which is not supported`);
  return { name: meta.name, datatype, shape: meta.shape.map((d) => (typeof d === 'number' ? d : d === '' ? -1 : d)) };
}

// A Node with Float16Array still accepts the raw bits as Uint16Array or wants them as Float16Array, depending on the binding.
const Float16 = (
  globalThis as { Float16Array?: new (buffer: ArrayBufferLike, offset: number, length: number) => ArrayBufferView }
).Float16Array;

function toOrt(tensor: Tensor): ort.Tensor {
  if (tensor.datatype === 'BYTES') {
    const strings = (tensor as Tensor<'BYTES'>).data.map((element) =>
      typeof element === 'string' ? element : Buffer.from(element).toString('utf8'),
    );
    return new ort.Tensor('string', strings, tensor.shape);
  }
  const type = typeOf[tensor.datatype];
  if (tensor.datatype === 'FP16' && Float16 !== undefined) {
    const bits = (tensor as Tensor<'FP16'>).data;
    return new ort.Tensor(type, new Float16(bits.buffer, bits.byteOffset, bits.length) as never, tensor.shape);
  }
  return new ort.Tensor(type, tensor.data as never, tensor.shape);
}

function fromOrt(tensor: ort.Tensor): Tensor {
  const datatype = datatypeOf[tensor.type];
  if (datatype === undefined) throw new Error(`an output has the element type ${tensor.type}, which is not supported`);
  let data: unknown = tensor.data;
  if (datatype === 'FP16' && !(data instanceof Uint16Array)) {
    const view = data as ArrayBufferView & { length: number };
    data = new Uint16Array(view.buffer, view.byteOffset, view.length);
  }
  return new Tensor(datatype, tensor.dims, data as never);
}
