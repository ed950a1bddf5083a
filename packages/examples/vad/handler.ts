import { defineHandler, type InferenceRequest, PredictionError } from '@onnxserve/handler-kit';
import { resample } from './resample.js';
import { sampleRate, type SegmentSettings, speechSegments } from './segments.js';
import { decodeWav } from './wav.js';
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
    const config = (ctx.model.config['vad'] ?? {}) as Partial<SegmentSettings> & { maximumSeconds?: number };
    const { maximumSeconds = 600, ...settings } = config;
    return { maximumSeconds, settings: { ...defaults, ...settings } };
  },

  preprocess(request, ctx): Features {
    const { maximumSeconds, settings } = ctx.state;
    const audio = decodeWav(request.body());
    if (audio.rate < 8000 || audio.rate > 192_000) {
      throw new PredictionError(`the sample rate is ${audio.rate} Hz; send 8000 to 192000 Hz, best ${sampleRate}`, 400);
    }
    const length = audio.samples.length / audio.rate;
    if (length > maximumSeconds) {
      throw new PredictionError(
        `the recording lasts ${length.toFixed(1)} s, the limit is ${maximumSeconds} s; raise vad.maximumSeconds in model-config.yaml`,
        413,
      );
    }
    return {
      samples: resample(audio.samples, audio.rate, sampleRate),
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

/** What the client sets for this request, in the query or in the parameters of an Open Inference request. */
function requested(request: InferenceRequest): Partial<SegmentSettings> {
  const given: Record<string, unknown> = { ...request.parameters, ...Object.fromEntries(request.query) };
  const result: Record<string, number> = {};
  for (const name of Object.keys(defaults)) {
    if (given[name] === undefined) continue;
    const value = Number(given[name]);
    const limit = name === 'threshold' ? 1 : 60_000;
    if (given[name] === '' || !(value >= 0 && value <= limit)) {
      throw new PredictionError(`${name} is ${JSON.stringify(given[name])}; send a number from 0 to ${limit}`, 400);
    }
    result[name] = value;
  }
  return result;
}
