import { type SessionHandle, Tensor } from '@onnxserve/handler-kit';
import { sampleRate, windowSize } from './segments.js';

/** Samples of the window before that the network sees again in front of each window. */
const contextSize = 64;
const inputSize = contextSize + windowSize;
const stateSize = 128;
const layers = 2;

export interface Recording {
  /** 16 kHz, -1 to 1. */
  readonly samples: Float32Array;
  readonly signal: AbortSignal;
}

/**
 * Probability of speech in each window of each recording. The network carries a state from window to window, so the windows
 * of one recording run one after the other, and the recordings run side by side: step n is one run over the n-th window
 * of every recording that is long enough and whose client still waits.
 */
export async function speechProbabilities(session: SessionHandle, recordings: readonly Recording[]): Promise<Float32Array[]> {
  const results = recordings.map(({ samples }) => new Float32Array(Math.ceil(samples.length / windowSize)));
  const states = recordings.map(() => new Float32Array(layers * stateSize));
  const rate = new Tensor('INT64', [], BigInt64Array.of(BigInt(sampleRate)));
  const steps = Math.max(0, ...results.map(({ length }) => length));

  for (let step = 0; step < steps; step++) {
    const active = [...recordings.keys()].filter((index) => step < results[index]!.length && !recordings[index]!.signal.aborted);
    if (active.length === 0) break;
    const input = new Float32Array(active.length * inputSize);
    const state = new Float32Array(layers * active.length * stateSize);
    for (const [row, index] of active.entries()) {
      const from = step * windowSize;
      const seen = recordings[index]!.samples.subarray(Math.max(0, from - contextSize), from + windowSize);
      input.set(seen, row * inputSize + (step === 0 ? contextSize : 0));
      copyState(states[index]!, 0, 1, state, row, active.length);
    }
    const outputs = await session.run({
      input: new Tensor('FP32', [active.length, inputSize], input),
      state: new Tensor('FP32', [layers, active.length, stateSize], state),
      sr: rate,
    });
    for (const [row, index] of active.entries()) {
      results[index]![step] = (outputs['output']!.data as Float32Array)[row]!;
      copyState(outputs['stateN']!.data as Float32Array, row, active.length, states[index]!, 0, 1);
    }
  }
  return results;
}

/** Copies one recording's rows between states of shape [layers, rows, 128]. */
function copyState(from: Float32Array, row: number, rows: number, to: Float32Array, toRow: number, toRows: number): void {
  for (let layer = 0; layer < layers; layer++) {
    const start = (layer * rows + row) * stateSize;
    to.set(from.subarray(start, start + stateSize), (layer * toRows + toRow) * stateSize);
  }
}
