import { describe, expect, it } from 'vitest';
import { parseGrpcHost } from './grpc-listen.js';

describe('parseGrpcHost', () => {
  it.each([
    ['127.0.0.1', { host: '127.0.0.1' }],
    ['0.0.0.0', { host: '0.0.0.0' }],
    ['my-host.example', { host: 'my-host.example' }],
    ['::1', { host: '::1' }],
    ['[fe80::1%eth0]', { host: 'fe80::1%eth0' }],
    ['unix:/run/a.sock', { host: '', path: '/run/a.sock' }],
    ['unix:///run/a.sock', { host: '', path: '/run/a.sock' }],
  ])('reads %s', (text, where) => expect(parseGrpcHost(text)).toEqual(where));

  it.each(['http://127.0.0.1', '127.0.0.1:7070', 'localhost:7070', 'unix:a.sock', '', 'a b'])('refuses %j', (text) =>
    expect(parseGrpcHost(text)).toHaveProperty('problem'),
  );
});
