import { defineHandler } from '@onnxserve/handler-kit';
import { rowOf, valueOf } from './row.js';

/** Node of a workflow: wraps the text it gets in its tag, `m1(text)`. */
export default defineHandler<string>({
  load: (ctx) => String(ctx.model.config.tag),
  handle(batch, ctx) {
    return batch.map(({ request }) => {
      const value = valueOf(rowOf(request));
      const text = value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value);
      if (text === 'crash') throw new Error('asked to crash');
      return `${ctx.state}(${text})`;
    });
  },
});
