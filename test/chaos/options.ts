import { parseArgs } from 'node:util';

export interface Options {
  /** The long run: its parts take longer, and those that its results file has as passed are not run again. */
  readonly full: boolean;
  /** Minutes of soak; undefined: none. */
  readonly soakMinutes: number | undefined;
  /** Names of the parts to run; undefined: all. */
  readonly only: readonly string[] | undefined;
  /** Seconds with a kill every five. */
  readonly killSeconds: number;
  /** Seconds without any, before and after. */
  readonly calmSeconds: number;
  /** Start-drain-stop cycles. */
  readonly cycles: number;
  /** Folder with `minilm.onnx` or `model.onnx`, and `tokenizer.json`. */
  readonly minilm: string | undefined;
  /** JSON lines, one for each finished part. */
  readonly results: string;
  readonly fresh: boolean;
  readonly seed: number;
}

export const usage = `npm run chaos -- [options]
  --full                 the long run; continues where an interrupted one ended
  --fresh                with --full: begins anew
  --soak MINUTES         also the soak test (with --full: 30 minutes unless given)
  --only NAME,NAME       these parts alone
  --kill-seconds N       length of the part with kills (30, with --full 600)
  --cycles N             start-drain-stop cycles (6, with --full 100)
  --minilm FOLDER        serve all-MiniLM-L6-v2 from minilm.onnx (or model.onnx) and tokenizer.json in place of ocr
  --results FILE         results as JSON lines (test/dist/chaos-results.jsonl)
  --seed N               of the choice of victims
  --help`;

/** @throws for what cannot be read */
export function readOptions(args: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      full: { type: 'boolean', default: false },
      fresh: { type: 'boolean', default: false },
      soak: { type: 'string' },
      only: { type: 'string' },
      'kill-seconds': { type: 'string' },
      cycles: { type: 'string' },
      minilm: { type: 'string' },
      results: { type: 'string', default: 'test/dist/chaos-results.jsonl' },
      seed: { type: 'string', default: '1' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const { full } = values;
  const number = (name: 'soak' | 'kill-seconds' | 'cycles' | 'seed', otherwise: number): number => {
    const text = values[name];
    if (text === undefined) return otherwise;
    const value = Number(text);
    if (!(value > 0)) throw new Error(`--${name} ${text}: a number above 0 is needed`);
    return value;
  };
  const only = values.only?.split(',').map((name) => name.trim());
  const soaks = full || values.soak !== undefined || only?.includes('soak') === true;
  return {
    full,
    fresh: values.fresh,
    soakMinutes: soaks ? number('soak', 30) : undefined,
    only,
    killSeconds: number('kill-seconds', full ? 600 : 30),
    calmSeconds: full ? 60 : 8,
    cycles: number('cycles', full ? 100 : 6),
    minilm: values.minilm,
    results: values.results,
    seed: number('seed', 1),
  };
}
