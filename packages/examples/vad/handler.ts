import { defineHandler, type InferenceRequest, PredictionError } from '@onnxserve/handler-kit';
import { decodeAudio } from '@onnxserve/handler-kit/preprocess/audio';
import { sampleRate, type SegmentSettings, speechSegments } from './segments.js';
import { type Recording, speechProbabilities } from './windows.js';

const defaults: SegmentSettings = {
  threshold: 0.5,
  min_speech_duration_ms: 250,
  min_silence_duration_ms: 100,
  speech_pad_ms: 30,
};

interface Features extends Recording {
  readonly settings: SegmentSettings;
}

export default defineHandler({
  load(ctx) {
    const config = (ctx.model.config['vad'] ?? {}) as Partial<SegmentSettings> & { maxSeconds?: number };
    const { maxSeconds = 600, ...settings } = config;
    return { maxSeconds, settings: { ...defaults, ...settings } };
  },

  preprocess(request, ctx): Features {
    const { maxSeconds, settings } = ctx.state;
    return {
      samples: decodeAudio(request.body(), { sampleRate, maxSeconds }).samples,
      signal: request.signal,
      settings: { ...settings, ...requested(request) },
    };
  },

  async inference(batch: readonly Features[], ctx) {
    const probabilities = await speechProbabilities(ctx.session!, batch);
    return batch.map(({ samples, settings }, index) => ({
      probabilities: probabilities[index]!,
      length: samples.length,
      settings,
    }));
  },

  postprocess: ({ probabilities, length, settings }) => speechSegments(probabilities, length, settings),
});

/** What the client sets for this request: form fields, query parameters, or parameters of an Open Inference request. */
function requested(request: InferenceRequest): Partial<SegmentSettings> {
  const query = Object.fromEntries(request.query);
  const result: Record<string, number> = {};
  for (const name of Object.keys(defaults)) {
    const field = request.part(name);
    const given = field === undefined ? (query[name] ?? request.parameters[name]) : Buffer.from(field.data).toString();
    if (given === undefined) continue;
    const value = given === '' ? Number.NaN : Number(given);
    const limit = name === 'threshold' ? 1 : 60_000;
    if (!(value >= 0 && value <= limit)) {
      throw new PredictionError(`${name} is ${JSON.stringify(given)}; send a number from 0 to ${limit}`, 400);
    }
    result[name] = value;
  }
  return result;
}
