import { toNumbers } from '../convert.js';
import type { Tensor } from '../tensor.js';
import { present } from './scores.js';

export interface CtcOptions {
  /** Text of each class; the blank's is never used. */
  readonly labels: readonly string[];
  /** Class that stands for nothing; default 0. */
  readonly blank?: number;
}
export interface CtcText {
  readonly text: string;
  /** Classes that the text is made of. */
  readonly classes: readonly number[];
  /** Mean of the best score at the steps that gave them; 0 for an empty text. */
  readonly score: number;
}

/**
 * Greedy decoding for connectionist temporal classification: the best class of each step, repeats joined, blanks dropped.
 * @param scores probabilities or logits, `[steps, classes]` or `[n, steps, classes]`
 * @returns one text for each of the `n`
 */
export function ctcGreedyDecode(scores: Tensor | undefined, { labels, blank = 0 }: CtcOptions): CtcText[] {
  const { shape } = present(scores);
  if (shape.length !== 2 && shape.length !== 3)
    throw new RangeError(`CTC scores have 2 or 3 dimensions, got [${shape.join(', ')}]`);
  const values = toNumbers(scores!);
  const [steps, width] = shape.slice(-2) as [number, number];
  const count = shape.length === 3 ? shape[0]! : 1;
  return Array.from({ length: count }, (_, item) => {
    const classes: number[] = [];
    let sum = 0;
    let before = blank;
    for (let step = 0; step < steps; step++) {
      const start = (item * steps + step) * width;
      let best = 0;
      for (let at = 1; at < width; at++) if (values[start + at]! > values[start + best]!) best = at;
      if (best !== blank && best !== before) {
        classes.push(best);
        sum += values[start + best]!;
      }
      before = best;
    }
    const text = classes.map((index) => labels[index] ?? '').join('');
    return { text, classes, score: classes.length === 0 ? 0 : sum / classes.length };
  });
}
