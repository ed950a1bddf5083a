import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { RunQueue } from './run-queue.js';

describe('time without a core', () => {
  it('is the second number of the file, read anew each time, and 0 where there is none', () => {
    const folder = mkdtempSync(join(tmpdir(), 'run-queue-'));
    try {
      const file = join(folder, 'schedstat');
      writeFileSync(file, '57005892 2218499 13\n');
      const queue = new RunQueue(file);
      expect(queue.waited()).toBe(2_218_499);
      writeFileSync(file, '57005892 3000000 14\n');
      expect(queue.waited()).toBe(3_000_000);
      writeFileSync(file, 'nonsense');
      expect(queue.waited()).toBe(0);
      expect(new RunQueue(join(folder, 'missing')).waited()).toBe(0);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
