import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const workloadNames = ['noop', 'text', 'image'] as const;
export type WorkloadName = (typeof workloadNames)[number];

export interface Workload {
  readonly name: WorkloadName;
  /** The ONNX file; undefined: it is made on the spot. */
  readonly model: string | undefined;
  /** Further files of the archive. */
  readonly extraFiles: readonly string[];
  readonly contentType: string;
  /** Sent in turn. */
  readonly bodies: readonly Buffer[];
}

const words =
  'the model server receives a request and places it into a queue where a scheduler groups several of them together before inference on the processor so that throughput rises while latency stays within the limit'.split(
    ' ',
  );

/**
 * @param models folder with `minilm_pooled.onnx`, `tokenizer.json`, `mobilenetv2.onnx` and `image.jpg`
 * @returns the workload, or the name of the file that it lacks
 */
export function workload(name: WorkloadName, models: string | undefined): Workload | { readonly missing: string } {
  switch (name) {
    case 'noop': {
      const x = Array.from({ length: 16 }, (_, at) => Math.round(Math.sin(at + 1) * 10_000) / 10_000);
      return {
        name,
        model: undefined,
        extraFiles: [],
        contentType: 'application/json',
        bodies: [Buffer.from(JSON.stringify({ x }))],
      };
    }
    case 'text': {
      const [model, tokenizer] = [join(models ?? '', 'minilm_pooled.onnx'), join(models ?? '', 'tokenizer.json')];
      const missing = [model, tokenizer].find((file) => models === undefined || !existsSync(file));
      if (missing !== undefined) return { missing };
      return { name, model, extraFiles: [tokenizer], contentType: 'application/json', bodies: sentences(64) };
    }
    case 'image': {
      const [model, picture] = [join(models ?? '', 'mobilenetv2.onnx'), join(models ?? '', 'image.jpg')];
      const missing = [model, picture].find((file) => models === undefined || !existsSync(file));
      if (missing !== undefined) return { missing };
      return { name, model, extraFiles: [], contentType: 'image/jpeg', bodies: [readFileSync(picture)] };
    }
    default: {
      const never: never = name;
      throw new TypeError(`unknown workload ${String(never)}`);
    }
  }
}

/** Sentences of 6 to 32 words, the same in each run. */
function sentences(count: number): Buffer[] {
  let seed = 7;
  const next = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  return Array.from({ length: count }, () => {
    const text = Array.from({ length: 6 + next(27) }, () => words[next(words.length)]).join(' ');
    return Buffer.from(JSON.stringify({ text: `${text}.` }));
  });
}
