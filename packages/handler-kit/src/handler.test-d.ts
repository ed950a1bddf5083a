// Compiled, never run: what TypeScript infers along a handler's chain.
import {
  defineHandler,
  done,
  type InferenceRequest,
  more,
  type NamedTensors,
  PredictionError,
  respond,
  type SequencePlace,
  type StandardSchema,
  Tensor,
  tensor,
  zeros,
} from './index.js';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(yes: Same<A, B>): void;
declare function must<T>(value: T | undefined): T;

// The state of an async load reaches every later stage; default run gives named tensors.
export const classifier = defineHandler({
  async load(ctx) {
    ctx.log.info(ctx.model.name);
    return { labels: await ctx.model.json<string[]>('labels.json') };
  },
  preprocess(request, ctx) {
    same<typeof ctx.state, { labels: string[] }>(true);
    same<ReturnType<typeof request.body>, Uint8Array>(true);
    // @ts-expect-error no such state
    void ctx.state.missing;
    ctx.response.header('x-a', 'b');
    return { input: tensor('FP32', [1], [1]) };
  },
  postprocess(outputs, ctx) {
    same<typeof outputs, NamedTensors>(true);
    same<typeof ctx.state.labels, string[]>(true);
    return { label: ctx.state.labels[0] };
  },
});

// What load returned reaches a pad that is computed from it.
export const padded = defineHandler({
  load: () => Promise.resolve({ padId: 3 }),
  preprocess: () => ({ ids: tensor('INT64', [1, 1], [1]) }),
  pad: (state) => {
    same<typeof state, { padId: number }>(true);
    return { ids: { value: state.padId, side: 'left' } };
  },
});
export const paddedAlways = defineHandler({
  preprocess: () => ({ ids: tensor('INT64', [1, 1], [1]) }),
  pad: { ids: { value: 0n } },
});

// Features reach inference, its outputs reach postprocess, as what they are.
export const custom = defineHandler({
  load: () => ({ scale: 2 }),
  async preprocess(request) {
    return { text: request.text(), length: 3 };
  },
  async inference(batch, ctx) {
    same<typeof batch, ReadonlyArray<{ text: string; length: number }>>(true);
    same<typeof ctx.state, { scale: number }>(true);
    // @ts-expect-error a batch has no single request
    void ctx.request;
    return batch.map((item) => ({ score: item.length * ctx.state.scale }));
  },
  postprocess(outputs, ctx) {
    same<typeof outputs, { score: number }>(true);
    same<typeof ctx.state, { scale: number }>(true);
    // @ts-expect-error outputs have no logits
    void outputs.logits;
    return outputs.score;
  },
});

// An Error in the place of an output does not widen what postprocess gets.
export const partial = defineHandler({
  preprocess: (request) => request.text(),
  inference(batch) {
    return batch.map((text) => (text === '' ? new PredictionError('empty', 400) : text.length));
  },
  postprocess(outputs) {
    same<typeof outputs, number>(true);
    return outputs.toFixed(1);
  },
});

// Without preprocess, inference gets the requests themselves.
export const inferenceOnly = defineHandler({
  inference(batch) {
    same<typeof batch, readonly InferenceRequest[]>(true);
    return batch.map((request) => request.text());
  },
  postprocess(outputs) {
    same<typeof outputs, string>(true);
    return outputs;
  },
});

// Without load there is no state.
export const stateless = defineHandler({
  preprocess(_request, ctx) {
    same<typeof ctx.state, undefined>(true);
    return { x: zeros('INT64', [1, 2]) };
  },
});

// Several sessions in a chain of one's own.
export const pipeline = defineHandler({
  load: async (ctx) => ({ detector: must(ctx.sessions['detector']) }),
  preprocess: () => ({ image: zeros('UINT8', [1, 3, 8, 8]) }),
  async inference(batch, ctx) {
    return Promise.all(
      batch.map(async (features) => {
        same<typeof features.image, Tensor<'UINT8'>>(true);
        return { boxes: (await ctx.state.detector.run(features))['boxes'] };
      }),
    );
  },
  postprocess(outputs, ctx) {
    same<typeof outputs, { boxes: Tensor | undefined }>(true);
    ctx.response.status(201);
    return respond({ boxes: outputs.boxes?.shape ?? [] }, { status: 202 });
  },
});

// The whole batch.
export const whole = defineHandler({
  load: () => ({ calls: 0 }),
  handle(batch, ctx) {
    same<typeof ctx.state, { calls: number }>(true);
    return batch.map(({ request, ctx: own }) => {
      own.response.contentType('text/plain');
      return request.text();
    });
  },
});

// Without inference the default run needs tensors.
defineHandler({
  // @ts-expect-error text is no tensor
  preprocess: (request) => request.text(),
});

// A whole-batch handler has no stages.
// @ts-expect-error both contracts at once
defineHandler({ preprocess: () => ({}), handle: () => [] });

// Streaming and explanations.
export const streaming = defineHandler({
  postprocess(outputs) {
    return (async function* () {
      for (const name of Object.keys(outputs)) yield name;
    })();
  },
  explain: (outputs) => ({ names: Object.keys(outputs) }),
  describe: (ctx) => ({ state: ctx.state }),
  unload(state) {
    same<typeof state, undefined>(true);
  },
});

// A schema's output is the type of the parsed body.
export const validated = defineHandler({
  async preprocess(request) {
    const schema = {} as StandardSchema<{ text: string }>;
    const body = await request.json(schema);
    same<typeof body, { text: string }>(true);
    same<ReturnType<typeof request.json>, Promise<unknown>>(true);
    return { text: tensor('BYTES', [1], [body.text]) };
  },
});

// What startSequence returns, awaited, is the state of the sequence in every stage of a request.
export const conversation = defineHandler({
  load: () => ({ greeting: 'hello' }),
  async startSequence(ctx) {
    same<typeof ctx.sequence.id, string>(true);
    same<typeof ctx.state, { greeting: string }>(true);
    return { turns: 0 };
  },
  preprocess(request, ctx) {
    same<typeof request.sequence, SequencePlace | undefined>(true);
    same<typeof ctx.sequence.state, { turns: number }>(true);
    ctx.sequence.state = { turns: ctx.sequence.state.turns + 1 };
    // @ts-expect-error the place is what the client said
    ctx.sequence.end = true;
    return { x: zeros('INT64', [1, ctx.sequence.state.turns]) };
  },
  postprocess: (_outputs, ctx) => ({ turns: ctx.sequence.state.turns, last: ctx.sequence.end }),
  endSequence(state, reason) {
    same<typeof state, { turns: number }>(true);
    // @ts-expect-error no such reason
    void (reason === 'bored');
  },
});
export const wholeConversation = defineHandler({
  startSequence: () => new Map<string, number>(),
  handle: (batch) =>
    batch.map(({ ctx }) => {
      same<typeof ctx.sequence.state, Map<string, number>>(true);
      return ctx.sequence.state.size;
    }),
});

// What preprocess returns is the job of each step.
export const counter = defineHandler({
  load: () => ({ limit: 3 }),
  startSequence: () => ({ total: 0 }),
  async preprocess(request) {
    return { left: Number(request.text()) };
  },
  step(batch, ctx) {
    same<typeof ctx.state, { limit: number }>(true);
    return batch.map((item) => {
      same<typeof item.job, { left: number }>(true);
      same<typeof item.ctx.sequence.state, { total: number }>(true);
      item.job = { left: item.job.left - 1 };
      if (item.steps > ctx.state.limit) return new PredictionError('too long', 422);
      return item.job.left > 0 ? more(`${item.job.left} `) : done({ over: true });
    });
  },
  release(job) {
    same<typeof job, { left: number }>(true);
  },
});
export const plainSteps = defineHandler({
  step(batch) {
    same<(typeof batch)[number]['job'], InferenceRequest>(true);
    return batch.map(({ job }) => done(job.text()));
  },
});
// A step says what becomes of each request.
defineHandler({
  // @ts-expect-error neither more nor done
  step: (batch) => batch.map(() => 'text'),
});
