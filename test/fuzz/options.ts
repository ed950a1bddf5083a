import { parseArgs } from 'node:util';

export interface Options {
  /** Cases over sockets, all targets together; undefined: the short run. */
  readonly requests: number | undefined;
  readonly seed: string;
  /** Names of targets; undefined: all. */
  readonly only: readonly string[] | undefined;
  /** Numbers of the cases to play, first and last. */
  readonly cases: readonly [number, number] | undefined;
  /** A file whose bytes are the one case. */
  readonly file: string | undefined;
}

export const usage = `npm run fuzz -- [options]
  --requests N       so many cases over sockets, shared by the targets (500 for each target)
  --seed TEXT        of the generator (1)
  --only NAME,NAME   these targets alone
  --case N or N-M    with --only NAME: that case alone, or these
  --file FILE        with --only NAME: the bytes of a file as the one case
  --list             names of the targets
  --help`;

/** @throws for what cannot be read */
export function readOptions(args: readonly string[]): Options | 'help' | 'list' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      requests: { type: 'string' },
      seed: { type: 'string', default: '1' },
      only: { type: 'string' },
      case: { type: 'string' },
      file: { type: 'string' },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  if (values.list) return 'list';
  const requests = values.requests === undefined ? undefined : Number(values.requests);
  if (requests !== undefined && !(Number.isInteger(requests) && requests > 0))
    throw new Error(`--requests ${values.requests}: a whole number above 0 is needed`);
  const range = values.case === undefined ? undefined : /^(\d+)(?:-(\d+))?$/.exec(values.case);
  if (range === null) throw new Error(`--case ${values.case}: N or N-M is needed`);
  return {
    requests,
    seed: values.seed,
    only: values.only?.split(',').map((name) => name.trim()),
    cases: range === undefined ? undefined : [Number(range[1]), Number(range[2] ?? range[1])],
    file: values.file,
  };
}
