import { defineHandler } from '@onnxserve/handler-kit';
import { loadTokenizer } from '@onnxserve/handler-kit/preprocess/text';

/** One sentence in, its embedding out; the model pools the token vectors itself. */
export default defineHandler({
  load: (ctx) => loadTokenizer(ctx.model.path('tokenizer.json'), { maxLength: 256 }),
  async preprocess(request, ctx) {
    const { text } = request.json() as { text: string };
    const { input_ids, attention_mask } = await ctx.state.encode([text]);
    return { input_ids, attention_mask };
  },
  pad: (tokenizer) => tokenizer.pad,
  postprocess(outputs) {
    return { embedding: outputs['sentence_embedding']?.data };
  },
});
