import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LogFile } from './log-file.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'log-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function open(more: { now?: () => number; maxBytes?: number; keep?: number } = {}): LogFile {
  const onBroken = (error: Error) => {
    throw error;
  };
  return new LogFile({ file: join(folder, 'x.log'), onBroken, ...more });
}

it('appends to what is there and writes everything on close', async () => {
  for (const text of ['one\n', 'two\n']) {
    const file = open();
    file.write(text);
    await file.close();
  }
  expect(readFileSync(join(folder, 'x.log'), 'utf8')).toBe('one\ntwo\n');
});

it('loses nothing when the process ends at once', async () => {
  const file = open();
  file.write('last words\n');
  file.flushSync();
  expect(readFileSync(join(folder, 'x.log'), 'utf8')).toBe('last words\n');
  await file.close();
  expect(readFileSync(join(folder, 'x.log'), 'utf8')).toBe('last words\n');
});

it('begins a new file at its size limit, loses no line and keeps a bounded number of old ones', async () => {
  const texts = Array.from({ length: 14 }, (_, at) => `${at}:${'x'.repeat(10_000)}\n`);
  for (const text of texts) {
    const file = open({ maxBytes: 10_000, keep: 12 });
    file.write(text);
    await file.close();
  }
  const names = readdirSync(folder);
  expect(names).toHaveLength(13);
  const kept = names.map((name) => readFileSync(join(folder, name), 'utf8'));
  expect(kept.sort()).toEqual(texts.slice(1).sort());
});

it('loses nothing of what is written while it changes files', async () => {
  const file = open({ maxBytes: 1000, keep: 1000 });
  const texts: string[] = [];
  while ((await readdir(folder)).length < 4) {
    texts.push(`${texts.length}:${'x'.repeat(1000)}`);
    file.write(`${texts.at(-1)}\n`);
    file.flush();
  }
  await file.close();
  const kept = readdirSync(folder).flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1));
  expect(kept.sort()).toEqual(texts.sort());
});

it('begins a new file each day', async () => {
  let now = new Date(2024, 4, 1, 23, 59).getTime();
  const file = open({ now: () => now });
  file.write('monday\n');
  await file.close();
  const next = open({ now: () => now });
  now += 120_000;
  next.write('tuesday\n');
  await next.close();
  expect(readdirSync(folder).sort()).toEqual(['x.2024-05-01.1.log', 'x.log']);
  expect(readFileSync(join(folder, 'x.log'), 'utf8')).toBe('tuesday\n');
});
