// The model of the client test, for onnxserve. handler.py beside it does the same for TorchServe; one archive holds both.
import { PredictionError } from '@onnxserve/handler-kit';

export default {
  handle: (batch) => batch.map(({ request, ctx }) => attempt(() => answer(request, ctx))),
};

function attempt(work) {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

function answer(request, ctx) {
  const mode = request.part('mode');
  if (request.headers['x-stream'] === 'yes' || (mode && Buffer.from(mode.data).toString() === 'stream')) return stream();
  ctx.response.header('x-model-version', ctx.model.version);
  const names = request.parts().map((part) => part.name);
  const others = request
    .parts()
    .filter(({ name }) => name !== 'data' && name !== 'body')
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  if (others.length > 0) {
    const fields = Object.fromEntries(others.map(({ name, data }) => [name, data.length]));
    return { fields, data: names.includes('data') ? request.part('data').data.length : null };
  }
  if (request.contentType === 'application/json') {
    const json = request.json();
    return { json, sum: (json.values ?? []).reduce((sum, value) => sum + value, 0) };
  }
  const body = Buffer.from(request.body());
  switch (body.toString('latin1')) {
    case 'refuse':
      throw new PredictionError('not this one', 422);
    case 'fail':
      throw new Error('the handler failed');
    case 'die':
      process.exit(3);
    case 'bytes':
      ctx.response.contentType('application/x-reversed');
      return Uint8Array.from({ length: 256 }, (_, at) => at);
    default:
      return { bytes: body.length, version: ctx.model.version };
  }
}

async function* stream() {
  yield 'one ';
  yield 'two ';
  yield 'three';
}
