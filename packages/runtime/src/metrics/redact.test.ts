import { expect, it } from 'vitest';
import { redact } from './redact.js';

it.each([
  ['Authorization: Bearer abcDEF123._-', 'Authorization: Bearer ***'],
  ['Authorization: Basic dXNlcjpwYXNz', 'Authorization: Basic ***'],
  ['{"authorization":"Bearer abcdef"}', '{"authorization":"***"}'],
  ['GET https://h/m.mar?a=1&X-Amz-Signature=00ff&b=2', 'GET https://h/m.mar?a=1&X-Amz-Signature=***&b=2'],
  [
    '/models?url=https%3A%2F%2Fh%2Fm.mar%3Fsig%3Dabc%2526&initial_workers=1',
    '/models?url=https%3A%2F%2Fh%2Fm.mar%3Fsig%3D***&initial_workers=1',
  ],
  ['https://user:pass@host/m.mar', 'https://***@host/m.mar'],
  ['https%3A%2F%2Fuser%3Apass%40host%2Fm.mar', 'https%3A%2F%2F***%40host%2Fm.mar'],
  ['{"key":"s3cr3t","name":"m"}', '{"key":"***","name":"m"}'],
  ['/token?type=management&token=abc', '/token?type=management&token=***'],
])('%s', (text, safe) => expect(redact(text)).toBe(safe));

it.each([
  '/models?limit=10&next_page_token=5',
  'tokenize=1 in 5 ms',
  'a basic test of it: me@example.com',
  'path/key.json?monkey=1',
])('leaves %s alone', (text) => expect(redact(text)).toBe(text));
