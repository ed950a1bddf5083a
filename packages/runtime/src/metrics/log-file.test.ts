import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, unlinkSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LogFile } from './log-file.js';

/** Asks again and again; the test's own limit ends it. */
async function until(ask: () => Promise<true | undefined>): Promise<void> {
  for (;;) {
    try {
      if ((await ask()) === true) return;
    } catch {
      // The file is not there yet.
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

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

it("keeps yesterday's file apart when the server was down at midnight", async () => {
  const yesterday = open();
  yesterday.write('yesterday\n');
  await yesterday.close();
  const now = Date.now() + 26 * 3_600_000;
  const today = open({ now: () => now });
  today.write('today\n');
  await today.close();
  expect(readFileSync(join(folder, 'x.log'), 'utf8')).toBe('today\n');
  expect(readdirSync(folder)).toHaveLength(2);
});

it('follows its name when another program moves or cuts the file', async () => {
  let now = Date.now();
  const file = open({ now: () => now, maxBytes: 40 });
  const step = async (text: string) => {
    now += 1000;
    file.write(text);
    file.flush();
    await until(async () => (readFileSync(join(folder, 'x.log'), 'utf8').endsWith(text) ? true : undefined));
  };
  await step('before\n');
  renameSync(join(folder, 'x.log'), join(folder, 'moved'));
  await step('after\n');
  expect(readFileSync(join(folder, 'moved'), 'utf8')).toBe('before\n');
  // copytruncate
  await step(`${'x'.repeat(30)}\n`);
  truncateSync(join(folder, 'x.log'));
  await step('cut\n');
  await file.close();
  expect(readFileSync(join(folder, 'x.log'), 'utf8')).toBe('cut\n');
  expect(readdirSync(folder).sort()).toEqual(['moved', 'x.log']);
});

it('opens anew when asked to', async () => {
  const file = open({ now: () => 0 });
  file.write('before\n');
  file.flush();
  await until(async () => (readFileSync(join(folder, 'x.log'), 'utf8') === '' ? undefined : true));
  renameSync(join(folder, 'x.log'), join(folder, 'moved'));
  file.reopen();
  await until(async () => (readdirSync(folder).includes('x.log') ? true : undefined));
  file.write('after\n');
  await file.close();
  expect(readFileSync(join(folder, 'moved'), 'utf8')).toBe('before\n');
  expect(readFileSync(join(folder, 'x.log'), 'utf8')).toBe('after\n');
});

it('is never begun anew at a size of 0', async () => {
  let now = new Date(2024, 4, 1, 12).getTime();
  const file = open({ now: () => now, maxBytes: 0 });
  file.write('one\n');
  file.flush();
  await until(async () => (readFileSync(join(folder, 'x.log'), 'utf8') === '' ? undefined : true));
  now += 86_400_000;
  file.write('two\n');
  await file.close();
  expect(readdirSync(folder)).toEqual(['x.log']);
});

it('hands over what a full disk did not take, and is written again when there is space', async () => {
  let now = Date.now();
  const told: string[] = [];
  const path = join(folder, 'x.log');
  symlinkSync('/dev/full', path);
  const file = new LogFile({
    file: path,
    now: () => now,
    onBroken: (error, unwritten) => told.push(`${(error as NodeJS.ErrnoException).code} ${unwritten}`),
    onRecovered: () => told.push('recovered'),
  });
  file.write('one\n');
  file.flush();
  await until(async () => (told.length > 0 ? true : undefined));
  file.write('two\n');
  now += 60_000;
  // Still full: nobody is told again.
  file.write('three\n');
  file.flush();
  unlinkSync(path);
  await until(async () => {
    now += 60_000;
    file.write('four\n');
    file.flush();
    return told.length > 1 ? true : undefined;
  });
  await file.close();
  expect(told).toEqual(['ENOSPC one\n', 'recovered']);
  expect(readFileSync(path, 'utf8')).toContain('four\n');
});
