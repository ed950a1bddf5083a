import { describe, expect, it } from 'vitest';
import { tensor, toArray } from '../convert.js';
import { argmax, ctcGreedyDecode, l2normalize, meanPooling, nms, sigmoid, softmax, topK, topKRows } from './index.js';

const close = (actual: ArrayLike<number>, wanted: readonly number[]): void => {
  expect(actual).toHaveLength(wanted.length);
  for (const [index, value] of wanted.entries()) expect(actual[index]).toBeCloseTo(value, 6);
};

describe('activations', () => {
  it('softmax works row by row and does not overflow', () => {
    const result = softmax(
      tensor(
        'FP32',
        [2, 2],
        [
          [1000, 1000],
          [0, Math.log(3)],
        ],
      ),
    );
    expect(result.shape).toEqual([2, 2]);
    close(result.data, [0.5, 0.5, 0.25, 0.75]);
    close(softmax([0, 0, -Infinity]), [0.5, 0.5, 0]);
    close(softmax(tensor('FP16', [1, 2], [2, 2])).data, [0.5, 0.5]);
    expect(softmax(tensor('FP32', [0, 5], [])).shape).toEqual([0, 5]);
  });

  it('sigmoid and l2normalize', () => {
    close(sigmoid([0, Math.log(3), -1000, 1000]), [0.5, 0.75, 0, 1]);
    close(
      l2normalize(
        tensor(
          'FP32',
          [2, 2],
          [
            [3, 4],
            [0, 0],
          ],
        ),
      ).data,
      [0.6, 0.8, 0, 0],
    );
  });

  it('says that an output is missing', () => {
    expect(() => softmax(undefined)).toThrow('name of the model');
  });
});

describe('topK', () => {
  it('ranks, labels and breaks ties by index', () => {
    expect(topK([0.1, 0.5, 0.5, NaN], 3, ['a', 'b'])).toEqual([
      { index: 1, label: 'b', score: 0.5 },
      { index: 2, label: '2', score: 0.5 },
      { index: 0, label: 'a', score: 0.1 },
    ]);
    expect(topK([1, 2], 10)).toHaveLength(2);
    expect(topK([1, 2], 0)).toEqual([]);
  });

  it('reads the labels of index_to_name.json', () => {
    expect(topK([1, 2], 2, { 0: ['n01', 'tench'], 1: 'shark' }).map((it) => it.label)).toEqual(['shark', 'tench']);
  });

  it('goes row by row on demand', () => {
    const two = tensor(
      'FP32',
      [2, 2],
      [
        [1, 2],
        [4, 3],
      ],
    );
    expect(topKRows(two, 1).map((row) => row[0]!.index)).toEqual([1, 0]);
    expect(argmax(two)).toEqual([1, 0]);
    expect(argmax([NaN, 1, 1])).toEqual([1]);
    expect(() => topK(two, 1)).toThrow('topKRows');
  });
});

describe('nms', () => {
  const boxes = tensor(
    'FP32',
    [4, 4],
    [
      [0, 0, 10, 10],
      [1, 1, 10, 10],
      [20, 20, 30, 30],
      [0, 0, 10, 4],
    ],
  );
  const scores = [0.8, 0.9, 0.3, 0.1];

  it('keeps the best of what overlaps', () => {
    expect(nms(boxes, scores)).toEqual([1, 2, 3]);
    expect(nms(boxes, scores, { iouThreshold: 0.9 })).toEqual([1, 0, 2, 3]);
    expect(nms(boxes, scores, { scoreThreshold: 0.2 })).toEqual([1, 2]);
    expect(nms(boxes, scores, { maxDetections: 1 })).toEqual([1]);
    expect(nms(boxes, scores, { classes: [0, 1, 0, 0] })).toEqual([1, 0, 2, 3]);
    expect(nms(tensor('FP32', [0, 4], []), [])).toEqual([]);
  });

  it('wants four corners for each score', () => {
    expect(() => nms(boxes, [1])).toThrow('16 numbers for 1 scores');
  });
});

describe('ctcGreedyDecode', () => {
  const step = (best: number, score = 0.9): number[] => [0, 0, 0].map((_, index) => (index === best ? score : 0));
  const labels = ['', 'a', 'b'];

  it('joins repeats and drops blanks', () => {
    const scores = tensor('FP32', [6, 3], [step(1), step(1), step(0), step(1, 0.5), step(2), step(0)]);
    const [text] = ctcGreedyDecode(scores, { labels });
    expect(text).toMatchObject({ text: 'aab', classes: [1, 1, 2] });
    expect(text!.score).toBeCloseTo((0.9 + 0.5 + 0.9) / 3, 6);
  });

  it('decodes a batch, and nothing at all', () => {
    const scores = tensor('FP32', [2, 1, 3], [[step(2)], [step(0)]]);
    expect(ctcGreedyDecode(scores, { labels }).map((it) => it.text)).toEqual(['b', '']);
    expect(ctcGreedyDecode(tensor('FP32', [1, 0, 3], []), { labels })).toEqual([{ text: '', classes: [], score: 0 }]);
    expect(ctcGreedyDecode(scores, { labels: ['x', 'y', ''], blank: 2 }).map((it) => it.text)).toEqual(['', 'x']);
    expect(() => ctcGreedyDecode(tensor('FP32', [3], [1, 2, 3]), { labels })).toThrow('2 or 3 dimensions');
  });
});

describe('meanPooling', () => {
  it('leaves padding out', () => {
    const hidden = tensor(
      'FP32',
      [2, 2, 2],
      [
        [
          [1, 2],
          [3, 4],
        ],
        [
          [5, 6],
          [100, 100],
        ],
      ],
    );
    const pooled = meanPooling(
      hidden,
      tensor(
        'INT64',
        [2, 2],
        [
          [1, 1],
          [1, 0],
        ],
      ),
    );
    expect(toArray(pooled)).toEqual([
      [2, 3],
      [5, 6],
    ]);
    expect(toArray(meanPooling(hidden, tensor('INT64', [2, 2], [0, 0, 1, 0])))).toEqual([
      [0, 0],
      [5, 6],
    ]);
  });

  it('wants fitting shapes', () => {
    expect(() => meanPooling(tensor('FP32', [1, 2], [1, 2]), tensor('INT64', [1, 2], [1, 1]))).toThrow('[n, tokens, size]');
    expect(() => meanPooling(tensor('FP32', [1, 1, 2], [1, 2]), tensor('INT64', [1, 2], [1, 1]))).toThrow('[1, 1]');
  });
});
