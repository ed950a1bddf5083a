#!/usr/bin/env node
// Does what the README says in a fresh clone of what is committed here: one command, one request. Fails when the answer is wrong or takes too long.
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { curl, startQuickstart } from './quickstart.mjs';

/** From an empty folder to the first answer, with a warm npm cache. */
const LIMIT_S = 90;

const source = fileURLToPath(new URL('../../', import.meta.url));
const folder = await mkdtemp(join(tmpdir(), 'onnxserve-fresh-'));
const clone = join(folder, 'onnxserve');
try {
  const started = performance.now();
  const cloned = spawnSync('git', ['clone', '--quiet', source, clone], { stdio: 'inherit' });
  if (cloned.status !== 0) throw new Error('git clone failed');
  const environment = { LOG_LOCATION: join(folder, 'logs'), METRICS_LOCATION: join(folder, 'logs'), TMPDIR: folder };
  const quickstart = await startQuickstart(clone, ['--port', '0'], environment);
  try {
    const [digits = '', ocr = ''] = quickstart.requests;
    const answer = await (await curl(digits, { folder: clone })).text();
    const seconds = (performance.now() - started) / 1000;
    console.log(quickstart.output());
    console.log(`${digits}\n${answer}\n`);
    const text = await (await curl(ocr, { folder: clone })).text();
    console.log(`${ocr}\n${text}\n`);

    const readme = await readFile(join(clone, 'README.md'), 'utf8');
    const shown = /<!-- answer: digits -->\n```json\n(.*?)```/s.exec(readme)?.[1];
    const label = (/** @type {string} */ json) => JSON.parse(json)[0].label;
    if (shown === undefined || label(shown) !== label(answer)) throw new Error("the answer is not the README's");
    if (!text.includes('BOTANIC GARDEN')) throw new Error('ocr did not read its sample');
    console.log(`${seconds.toFixed(1)} s from nothing to the first answer (limit ${LIMIT_S} s)`);
    if (seconds > LIMIT_S) process.exitCode = 1;
  } finally {
    const status = await quickstart.stop();
    if (status !== 0) {
      console.error(`quickstart ended with ${status}:\n${quickstart.output()}`);
      process.exitCode = 1;
    }
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
