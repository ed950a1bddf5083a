/** Zero crossings of the filter on each side of its middle. */
const crossings = 16;

/**
 * Changes the sample rate with a windowed sinc filter, so that nothing above half the lower rate folds back.
 * @param from samples a second of the input, a whole number above 0
 * @param to samples a second of the result
 */
export function resample(samples: Float32Array, from: number, to: number): Float32Array {
  if (from === to) return samples;
  const divisor = gcd(from, to);
  const [up, down] = [to / divisor, from / divisor];
  const cutoff = Math.min(1, to / from);
  const reach = Math.ceil(crossings / cutoff);
  // The position of an output between two inputs repeats every `up` outputs.
  const kernels = Array.from({ length: up }, (_, phase) => kernel(((phase * down) % up) / up, cutoff, reach));
  const result = new Float32Array(Math.floor((samples.length * up) / down));
  for (let index = 0; index < result.length; index++) {
    const first = Math.floor((index * down) / up) - reach + 1;
    const weights = kernels[index % up]!;
    let sum = 0;
    for (let tap = Math.max(0, -first); tap < weights.length && first + tap < samples.length; tap++) {
      sum += weights[tap]! * samples[first + tap]!;
    }
    result[index] = sum;
  }
  return result;
}

/** Weights of the inputs around an output that lies `fraction` behind input number `reach - 1`; their sum is 1. */
function kernel(fraction: number, cutoff: number, reach: number): Float64Array {
  const weights = new Float64Array(2 * reach);
  let sum = 0;
  for (let tap = 0; tap < weights.length; tap++) {
    const x = (tap - reach + 1 - fraction) * cutoff;
    const window = Math.abs(x) >= crossings ? 0 : Math.cos((Math.PI * x) / (2 * crossings)) ** 2;
    weights[tap] = window * (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
    sum += weights[tap]!;
  }
  return weights.map((weight) => weight / sum);
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}
