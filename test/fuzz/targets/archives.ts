import { readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brokenModel, modelArchive, workflowArchive } from '../archive-bytes.js';
import type { Bench } from '../bench.js';
import { exchange } from '../../helpers/raw.js';
import { type Target, Violation, within } from '../target.js';

export const onnx = readFileSync(new URL('../../test/fixtures/models/identity-fp32.onnx', import.meta.url));
let made = 0;

/** Puts a file into the store, asks for it, and takes it away again. */
async function registered(bytes: Buffer, { open }: Bench, kind: 'models' | 'workflows', workers: number): Promise<number> {
  const name = `fuzzed-${++made}`;
  const file = `${name}.${kind === 'models' ? 'mar' : 'war'}`;
  await writeFile(join(open.store, file), bytes);
  try {
    const named = kind === 'models' ? `model_name=${name}&initial_workers=${workers}` : `workflow_name=${name}`;
    const answer = await within(exchange(`${open.management}/${kind}?url=${file}&${named}`), `registering ${file}`, 60_000);
    if (answer.status < 300) {
      const gone = await within(exchange(`${open.management}/${kind}/${name}`, { method: 'DELETE' }), 'unregistering', 60_000);
      if (gone.status >= 500) throw new Violation(`unregistering: ${gone.status} ${gone.body.toString().slice(0, 300)}`);
    }
    // A model that cannot be loaded is answered 500, as TorchServe does.
    if (answer.status >= 500 && !answer.body.includes('could not be loaded'))
      throw new Violation(`${answer.status} for a broken archive: ${answer.body.toString().slice(0, 400)}`);
    return answer.status;
  } finally {
    await rm(join(open.store, file), { force: true });
  }
}

export const archiveTargets: readonly Target[] = [
  {
    name: 'archives',
    kind: 'wire',
    share: 0.3,
    make: (random) => modelArchive(random, onnx),
    play: async (bytes, bench) => String(await registered(bytes, bench, 'models', 0)),
  },
  {
    name: 'workflows',
    kind: 'wire',
    share: 0.1,
    make: workflowArchive,
    play: async (bytes, bench) => String(await registered(bytes, bench, 'workflows', 0)),
  },
  {
    // A worker is started for each.
    name: 'onnx',
    kind: 'wire',
    slow: true,
    make: (random) => brokenModel(random, onnx),
    play: async (bytes, bench) => String(await registered(bytes, bench, 'models', 1)),
  },
];
