import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { zipBytes } from '../../../../test/helpers/zip-bytes.js';
import { ServeError } from '../domain/errors.js';
import { openArchive } from './open-archive.js';

let work: string;
let store: string;
let temp: string;
let server: Server;
let base: string;
let answer: RequestListener;
let asked: string[];

beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'download-'));
  store = join(work, 'store');
  temp = join(work, 'temp');
  await mkdir(store);
  await mkdir(temp);
  asked = [];
  answer = (_request, response) => void response.end(mar());
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    answer(request, response);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  await rm(work, { recursive: true, force: true });
});

function mar(): Buffer {
  const manifest = JSON.stringify({ model: { modelName: 'm', modelVersion: '1.0', handler: 'h.js' } });
  return zipBytes([
    { name: 'MAR-INF/MANIFEST.json', data: manifest },
    { name: 'h.js', data: '' },
  ]);
}

function open(url: string, allowedUrls: readonly string[] = ['http://127.0.0.1:.*'], more: object = {}) {
  const limits = { maxArchiveSize: 1 << 20, maxArchiveRatio: 200, ...more };
  return openArchive({ url }, { modelStore: store, tempDirectory: temp, allowedUrls, limits });
}

/** The error, after checking that store and temp directory hold what they held. */
async function refused(url: string, allowedUrls?: readonly string[], more?: object): Promise<ServeError> {
  const before = [await readdir(store), await readdir(temp)];
  const error: unknown = await open(url, allowedUrls, more).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ServeError);
  expect([await readdir(store), await readdir(temp)]).toEqual(before);
  return error as ServeError;
}

describe('the cycle of register and unregister', () => {
  it('works again and again over http, and removes its copy each time', async () => {
    for (let round = 0; round < 3; round++) {
      const archive = await open(`${base}/dir/m.mar?sig=a%2Fb`);
      expect(archive).toMatchObject({ name: 'm', url: `${base}/dir/m.mar?sig=a%2Fb` });
      expect(await readdir(store)).toEqual(['m.mar']);
      await archive.dispose();
      expect([await readdir(store), await readdir(temp)]).toEqual([[], []]);
    }
  });

  it('works for file urls, and the file itself stays', async () => {
    const file = join(work, 'mine.mar');
    await writeFile(file, mar());
    for (let round = 0; round < 3; round++) {
      const archive = await open(`file://${file}`, ['file://.*']);
      expect(await readdir(store)).toEqual(['mine.mar']);
      await archive.dispose();
    }
    expect(await readFile(file)).toEqual(mar());
  });

  it('a file of the store is not deleted', async () => {
    await writeFile(join(store, 'm.mar'), mar());
    for (let round = 0; round < 3; round++) await (await open('m.mar')).dispose();
    expect(await readdir(store)).toEqual(['m.mar']);
  });

  it('close keeps the download, for a server that only stops', async () => {
    const archive = await open(`${base}/m.mar`);
    await archive.close?.();
    expect([await readdir(store), await readdir(temp)]).toEqual([['m.mar'], []]);
  });

  it('a name that is taken is a conflict and stays as it is', async () => {
    await writeFile(join(store, 'm.mar'), 'mine');
    expect(await refused(`${base}/m.mar`)).toMatchObject({ code: 'CONFLICT' });
    expect(await readFile(join(store, 'm.mar'), 'utf8')).toBe('mine');
    expect(asked).toEqual([]);
  });

  it('what a killed server left half done goes with the next download', async () => {
    const [old, fresh, other] = ['.m.mar.0123456789ab.part', '.n.mar.0123456789ab.part', '.mine.part'];
    for (const name of [old, fresh, other]) await writeFile(join(store, name), 'half');
    for (const name of [old, other]) await utimes(join(store, name), 0, 0);
    await (await open(`${base}/m.mar`)).dispose();
    expect((await readdir(store)).toSorted()).toEqual([other, fresh]);
  });

  it('a download that is no archive is removed', async () => {
    answer = (_request, response) => void response.end('<html>');
    expect(await refused(`${base}/m.mar`)).toMatchObject({ code: 'INVALID_MODEL' });
  });
});

describe('urls that are not allowed are never asked', () => {
  it.each([
    ['nothing is allowed', '/m.mar', []],
    ['another host', '/m.mar', ['http://ok\\.example/.*']],
    ['only a part matches', '/m.mar', ['127\\.0\\.0\\.1']],
    ['dots climb out of the allowed folder', '/good/../evil/m.mar', ['http://127\\.0\\.0\\.1:\\d+/good/.*']],
    ['encoded dots climb', '/good/%2e%2e/evil/m.mar', ['http://127\\.0\\.0\\.1:\\d+/good/.*']],
    ['the allowed url stands in the query', '/m.mar?x=http://ok.example/', ['http://ok\\.example/.*']],
  ])('%s', async (_what, path, allowed) => {
    const error = await refused(base + path, allowed);
    expect(error).toMatchObject({ code: 'MODEL_NOT_FOUND', reason: 'url-not-allowed' });
    expect(error.message).toContain('allowed_urls');
    expect(asked).toEqual([]);
  });

  it('an allowed host in the place of the user name', async () => {
    const host = base.slice('http://'.length);
    for (const user of ['ok.example', 'ok.example:80']) {
      expect(await refused(`http://${user}@${host}/m.mar`, ['http://ok\\.example.*'])).toMatchObject({ code: 'MODEL_NOT_FOUND' });
    }
    expect(asked).toEqual([]);
  });

  it.each([
    'file:///etc/passwd',
    'file:///tmp/allowed/../../etc/passwd',
    'http://169.254.169.254/latest/m.mar',
    'gopher://h/m.mar',
  ])('%s', async (url) => {
    expect(await refused(url, ['file:///tmp/allowed/.*', 'https://ok\\.example/.*'])).toMatchObject({ code: 'MODEL_NOT_FOUND' });
  });

  it('any case matches', async () => {
    await (await open(`${base}/m.mar`, ['HTTP://127\\.0\\.0\\.1:[0-9]+/M\\.MAR'])).dispose();
  });
});

describe('redirects are judged again', () => {
  const redirectTo = (location: string): RequestListener => {
    return (request, response) => {
      if (request.url === '/start/m.mar') response.writeHead(302, { location }).end();
      else response.end(mar());
    };
  };
  const allowed = ['http://127\\.0\\.0\\.1:\\d+/(start|fine)/.*'];

  it('to an allowed place', async () => {
    answer = redirectTo('/fine/other-name.mar');
    const archive = await open(`${base}/start/m.mar`, allowed);
    expect(await readdir(store)).toEqual(['m.mar']);
    await archive.dispose();
  });

  it.each(['/evil/m.mar', 'file:///etc/passwd', 'http://169.254.169.254/m.mar'])('to %s', async (location) => {
    answer = redirectTo(location);
    expect(await refused(`${base}/start/m.mar`, allowed)).toMatchObject({ code: 'MODEL_NOT_FOUND' });
    expect(asked).toEqual(['/start/m.mar']);
  });

  it('without end', async () => {
    answer = (_request, response) => void response.writeHead(302, { location: '/start/m.mar' }).end();
    expect((await refused(`${base}/start/m.mar`, allowed)).message).toContain('more than 5 times');
    expect(asked).toHaveLength(6);
  });
});

describe('downloads that fail', () => {
  it('status, refused connection, missing file, folder', async () => {
    answer = (_request, response) => void response.writeHead(404).end('no');
    const error = await refused(`${base}/m.mar`);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toContain('404');
    expect(await refused('http://127.0.0.1:1/m.mar')).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(await refused('file:///nope/x.mar', ['file://.*'])).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect((await refused(`file://${work}`, ['file://.*'])).message).toContain('no file');
  });

  it.each([
    ['announced', true],
    ['not announced', false],
  ])('a size over the limit, %s', async (_what, announced) => {
    answer = (_request, response) => {
      if (announced) response.setHeader('content-length', 2 << 20);
      response.write(Buffer.alloc(1 << 20));
      response.end(Buffer.alloc(1 << 20));
    };
    const error = await refused(`${base}/m.mar`);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toContain('max_archive_size');
  });

  it('an answer that breaks off', async () => {
    answer = (_request, response) => {
      response.setHeader('content-length', 1000);
      response.write('half', () => response.destroy());
    };
    expect(await refused(`${base}/m.mar`)).toMatchObject({ code: 'DOWNLOAD_FAILED' });
  });

  it('an answer that never ends', async () => {
    answer = (_request, response) => void response.write('half');
    const error = await refused(`${base}/m.mar`, undefined, { downloadTimeout: 50 });
    expect(error.message).toContain('was not there after 0.05 s');
  });

  it.each(['', '/', '/%2e%2e%2fx.mar', '/.hidden.mar', '/a%00b.mar', '/..%5cx.mar'])(
    'a url without a usable file name: %s',
    async (path) => {
      expect(await refused(base + path)).toMatchObject({ code: 'DOWNLOAD_FAILED' });
      expect(asked).toEqual([]);
    },
  );

  it('no model store', async () => {
    const environment = {
      modelStore: undefined,
      tempDirectory: temp,
      allowedUrls: ['.*'],
      limits: { maxArchiveSize: 1, maxArchiveRatio: 1 },
    };
    await expect(openArchive({ url: `${base}/m.mar` }, environment)).rejects.toThrow(/model_store/);
  });
});
