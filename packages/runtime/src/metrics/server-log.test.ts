import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Level } from './line-format.js';
import { LogFiles } from './log-files.js';
import { createLogger } from './server-log.js';

let folder: string;
let printed: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'server-'));
  printed = '';
});
afterEach(() => rmSync(folder, { recursive: true }));

async function log(
  format: 'torchserve' | 'json',
  level: Level,
  write: (logger: ReturnType<typeof createLogger>) => void,
): Promise<void> {
  const files = new LogFiles({
    logLocation: folder,
    metricsLocation: undefined,
    maxBytes: 1e8,
    keep: 10,
    warn: () => undefined,
    toStdout: true,
    stdout: (text) => (printed += text),
  });
  write(createLogger({ files, level, format }));
  await files.close();
}

it('writes one line with the fields behind the message and a stack below it', async () => {
  await log('torchserve', 'info', (logger) => {
    logger.info({ port: 8080, reason: 'queue-full' }, 'ready');
    logger.error({ err: new Error('broken') }, 'failed');
    logger.debug('hidden');
  });
  expect(printed).toMatch(
    /^\S+ \[INFO \] main onnxserve - ready port=8080 reason=queue-full\n\S+ \[ERROR\] main onnxserve - failed\nError: broken\n    at /,
  );
  expect(printed).not.toContain('hidden');
});

it('writes JSON lines and hides secrets in both formats', async () => {
  for (const format of ['json', 'torchserve'] as const) {
    await log(format, 'info', (logger) => {
      logger.info(
        { headers: { authorization: 'Bearer abcdef' }, token: 'abcdef' },
        'from https://h/m.mar?X-Amz-Signature=abcdef',
      );
    });
  }
  const [json = '', text = ''] = printed.split('\n');
  expect(JSON.parse(json)).toMatchObject({ level: 'info', msg: 'from https://h/m.mar?X-Amz-Signature=***' });
  expect(text).toContain('m.mar?X-Amz-Signature=***');
  expect(printed).not.toContain('abcdef');
});
