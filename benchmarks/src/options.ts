import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { workloadNames, type WorkloadName } from './workloads.js';

export interface Options {
  readonly workloads: readonly WorkloadName[];
  readonly connections: readonly number[];
  /** Of each point. */
  readonly seconds: number;
  readonly rounds: number;
  readonly workers: number;
  readonly batchSize: number;
  readonly models: string | undefined;
  /** File for the figures of every round. */
  readonly json: string | undefined;
}

export const usage = `Measures onnxserve against a bare Node server that echoes, in one run.

  npm run bench -- [options]

  --workloads LIST    noop,text,image (default all; text and image need --models)
  --models DIR        folder with minilm_pooled.onnx, tokenizer.json, mobilenetv2.onnx, image.jpg (default $BENCH_MODELS)
  --connections LIST  connections of the closed loop (default 1,8,32,128)
  --seconds N         length of each point (default 5)
  --rounds N          rounds, of which the table has medians (default 3)
  --workers N         worker processes of the model, one thread each (default 2)
  --batch-size N      (default 16)
  --json FILE         writes the figures of every round
  --help
`;

/** @returns undefined when help was asked for. @throws {TypeError} naming what is wrong */
export function readOptions(args: readonly string[]): Options | undefined {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      workloads: text,
      models: text,
      connections: text,
      seconds: text,
      rounds: text,
      workers: text,
      'batch-size': text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) return undefined;
  const models = values.models ?? process.env['BENCH_MODELS'];
  return {
    workloads: (values.workloads?.split(',') ?? [...workloadNames]).map(workloadName),
    connections: (values.connections ?? '1,8,32,128').split(',').map((it) => positive('--connections', it)),
    seconds: positive('--seconds', values.seconds ?? '5'),
    rounds: positive('--rounds', values.rounds ?? '3'),
    workers: positive('--workers', values.workers ?? '2'),
    batchSize: positive('--batch-size', values['batch-size'] ?? '16'),
    models: models === undefined ? undefined : resolve(models),
    json: values.json,
  };
}

function workloadName(text: string): WorkloadName {
  const found = workloadNames.find((name) => name === text);
  if (found === undefined) throw new TypeError(`--workloads: there is no "${text}"; there are ${workloadNames.join(', ')}`);
  return found;
}

function positive(option: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new TypeError(`${option}: wanted a whole number from 1, got "${text}"`);
  return value;
}
