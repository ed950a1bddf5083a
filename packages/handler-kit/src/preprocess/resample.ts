/** Zero crossings of the sinc on each side: stop band below -80 dB with the window used. */
const halfWidth = 24;
/** Shape of the Kaiser window. */
const beta = 9;

/**
 * Brings samples to another rate.
 * @param method `sinc` (default) filters what the new rate cannot hold; `linear` is quicker and aliases
 * @returns `round(length * to / from)` samples
 */
export function resample(samples: Float32Array, from: number, to: number, method: 'sinc' | 'linear' = 'sinc'): Float32Array {
  for (const rate of [from, to]) {
    if (!(rate > 0) || !Number.isFinite(rate)) throw new RangeError(`${rate} is no sample rate`);
  }
  if (from === to || samples.length === 0) return samples;
  const result = new Float32Array(Math.round((samples.length * to) / from));
  return method === 'linear' ? linear(samples, from / to, result) : sinc(samples, from, to, result);
}

function linear(samples: Float32Array, step: number, result: Float32Array): Float32Array {
  const last = samples.length - 1;
  for (let index = 0; index < result.length; index++) {
    const position = Math.min(index * step, last);
    const left = Math.floor(position);
    const share = position - left;
    result[index] = samples[left]! * (1 - share) + samples[Math.min(left + 1, last)]! * share;
  }
  return result;
}

function sinc(samples: Float32Array, from: number, to: number, result: Float32Array): Float32Array {
  const cutoff = Math.min(1, to / from);
  const reach = Math.ceil(halfWidth / cutoff);
  const filters = new Map<number, Float64Array>();
  const divisor = gcd(Math.round(from), Math.round(to));
  // Positions repeat after so many outputs, so each filter is computed once; odd rates get one per position.
  const phases = Number.isInteger(from) && Number.isInteger(to) ? to / divisor : Infinity;
  for (let index = 0; index < result.length; index++) {
    const position = (index * from) / to;
    const centre = Math.floor(position);
    const phase = index % phases;
    let filter = filters.get(phase);
    if (!filter) {
      filter = windowedSinc(position - centre, cutoff, reach);
      if (phases <= 4096) filters.set(phase, filter);
    }
    let sum = 0;
    const first = centre - reach + 1;
    const start = Math.max(0, -first);
    const end = Math.min(filter.length, samples.length - first);
    for (let tap = start; tap < end; tap++) sum += samples[first + tap]! * filter[tap]!;
    result[index] = sum;
  }
  return result;
}

function windowedSinc(offset: number, cutoff: number, reach: number): Float64Array {
  const taps = new Float64Array(2 * reach);
  let sum = 0;
  for (let tap = 0; tap < taps.length; tap++) {
    const distance = (tap - reach + 1 - offset) * cutoff;
    const edge = distance / halfWidth;
    const window = Math.abs(edge) >= 1 ? 0 : bessel(beta * Math.sqrt(1 - edge * edge)) / bessel(beta);
    const value = distance === 0 ? 1 : Math.sin(Math.PI * distance) / (Math.PI * distance);
    sum += taps[tap] = value * window;
  }
  // A constant stays what it is.
  for (let tap = 0; tap < taps.length; tap++) taps[tap]! /= sum;
  return taps;
}

/** Modified Bessel function of the first kind, order 0. */
function bessel(x: number): number {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-12; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}
