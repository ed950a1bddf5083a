import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** What the `load` of a gated handler does. */
export type GateState = 'load' | 'hang' | 'fail';

/** A handler whose `load` does what a file says, looked at again and again while it says `hang`. */
export interface Gate {
  readonly handlerSource: string;
  set(state: GateState): Promise<void>;
}

/** @param loadMs how long a load takes that succeeds */
export async function makeGate(state: GateState, loadMs = 0): Promise<Gate> {
  const folder = await mkdtemp(join(tmpdir(), 'onnxserve-gate-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'state');
  const set = (next: GateState) => writeFile(file, next);
  await set(state);
  const handlerSource = `
import { readFileSync } from 'node:fs';
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export default {
  async load() {
    for (;;) {
      const state = readFileSync(${JSON.stringify(file)}, 'utf8');
      if (state === 'fail') throw new Error('the vocabulary is missing');
      if (state === 'load') break;
      await sleep(20);
    }
    await sleep(${loadMs});
  },
  async handle(batch) {
    const orders = batch.map(({ request }) => request.json());
    await sleep(Math.max(...orders.map(({ ms }) => ms ?? 0)));
    return orders.map(({ value }) => ({ value, pid: process.pid }));
  },
};`;
  return { handlerSource, set };
}
