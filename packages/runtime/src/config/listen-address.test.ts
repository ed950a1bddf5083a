import { describe, expect, it } from 'vitest';
import { parseListenAddress } from './listen-address.js';

describe('parseListenAddress', () => {
  it.each([
    ['http://127.0.0.1:8085', 'inference', 'http', '127.0.0.1', 8085],
    ['HTTP://localhost/', 'inference', 'http', 'localhost', 80],
    ['https://localhost', 'inference', 'https', 'localhost', 443],
    ['http://localhost', 'management', 'http', 'localhost', 8081],
    ['https://localhost', 'management', 'https', 'localhost', 8444],
    ['http://localhost', 'metrics', 'http', 'localhost', 8082],
    ['https://localhost', 'metrics', 'https', 'localhost', 8445],
    ['http://localhost:80', 'management', 'http', 'localhost', 80],
    ['http://[::1]:0', 'metrics', 'http', '::1', 0],
  ] as const)('reads %s for %s', (text, role, protocol, host, port) => {
    expect(parseListenAddress(text, role)).toEqual({ protocol, host, port, text });
  });

  it.each(['unix:/run/a.sock', 'unix:///run/a.sock'])('reads %s', (text) => {
    expect(parseListenAddress(text, 'inference')).toMatchObject({ path: '/run/a.sock', text });
  });

  it.each(['127.0.0.1:8080', 'ftp://h:1', 'http://h:70000', 'http://h:x', 'http://', 'unix:a.sock', 'http://h:1/path', ''])(
    'refuses %j',
    (text) => expect(() => parseListenAddress(text, 'inference')).toThrow(),
  );
});
