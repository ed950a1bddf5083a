import { toNumbers } from '../convert.js';
import { Tensor } from '../tensor.js';
import { present } from './scores.js';

/**
 * Mean of the token vectors that the mask keeps.
 * @param hidden `[n, tokens, size]`
 * @param mask `[n, tokens]`, 1 for a token and 0 for padding
 * @returns `[n, size]`; zeros for a row without any token
 */
export function meanPooling(hidden: Tensor | undefined, mask: Tensor | undefined): Tensor<'FP32'> {
  const [count, tokens, size, ...more] = present(hidden).shape;
  if (count === undefined || tokens === undefined || size === undefined || more.length > 0) {
    throw new RangeError(`meanPooling needs token vectors of shape [n, tokens, size], got [${hidden!.shape.join(', ')}]`);
  }
  const { shape } = present(mask, 'mask values');
  if (shape.length !== 2 || shape[0] !== count || shape[1] !== tokens) {
    throw new RangeError(`the mask should have the shape [${count}, ${tokens}], got [${shape.join(', ')}]`);
  }
  const vectors = toNumbers(hidden!);
  const kept = toNumbers(mask!);
  const means = new Float32Array(count * size);
  const sums = new Float64Array(size);
  for (let row = 0; row < count; row++) {
    sums.fill(0);
    let weight = 0;
    for (let token = 0; token < tokens; token++) {
      const share = kept[row * tokens + token]!;
      if (share === 0) continue;
      weight += share;
      const start = (row * tokens + token) * size;
      for (let at = 0; at < size; at++) sums[at]! += vectors[start + at]! * share;
    }
    for (let at = 0; at < size; at++) means[row * size + at] = weight === 0 ? 0 : sums[at]! / weight;
  }
  return new Tensor('FP32', [count, size], means);
}
