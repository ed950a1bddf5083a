import { PredictionError } from '../errors.js';
import { Tensor } from '../tensor.js';
import { resample } from './resample.js';
import { type Audio, decodeWav } from './wav.js';

export { resample } from './resample.js';
export { type Audio, decodeWav } from './wav.js';

export interface AudioOptions {
  /** Samples per second that the model wants; default as the file has them. */
  readonly sampleRate?: number;
  readonly method?: 'sinc' | 'linear';
  /** Longer sound is refused; seconds, default 600. */
  readonly maxSeconds?: number;
}

/** The mean of all channels. */
export function mono(audio: Audio): Float32Array {
  const [first, ...others] = audio.channels;
  if (!first || others.length === 0) return first ?? new Float32Array();
  const mixed = Float32Array.from(first);
  for (const channel of others) for (let at = 0; at < mixed.length; at++) mixed[at]! += channel[at]!;
  for (let at = 0; at < mixed.length; at++) mixed[at]! /= audio.channels.length;
  return mixed;
}

/**
 * WAV bytes to one channel at the wanted rate.
 * @throws {PredictionError} 400 not a WAV file, broken or without sound; 415 an encoding that is not supported; 413 too long
 */
export function decodeAudio(bytes: Uint8Array, options: AudioOptions = {}): { sampleRate: number; samples: Float32Array } {
  const audio = decodeWav(bytes);
  const samples = mono(audio);
  const maxSeconds = options.maxSeconds ?? 600;
  const seconds = samples.length / audio.sampleRate;
  if (samples.length === 0) throw new PredictionError('the WAV file has no sound in it', 400);
  if (seconds > maxSeconds) {
    throw new PredictionError(
      `the sound lasts ${seconds.toFixed(1)} s, the limit is ${maxSeconds} s (maxSeconds in the handler)`,
      413,
      {
        reason: 'input-too-large',
      },
    );
  }
  const sampleRate = options.sampleRate ?? audio.sampleRate;
  return { sampleRate, samples: resample(samples, audio.sampleRate, sampleRate, options.method) };
}

/** As `decodeAudio`, as FP32 `[1, samples]`. */
export function audioTensor(bytes: Uint8Array, options: AudioOptions = {}): Tensor<'FP32'> {
  const { samples } = decodeAudio(bytes, options);
  return new Tensor('FP32', [1, samples.length], samples);
}
