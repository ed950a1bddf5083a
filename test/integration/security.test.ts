import { createServer, type RequestListener, type Server } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import { credentials, status } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeCertificate, makePkcs12 } from '../helpers/certificates.js';
import { get, messageOf, post } from '../helpers/client.js';
import { runCommand } from '../helpers/command.js';
import { GrpcClient, input } from '../helpers/grpc.js';
import { makeMar } from '../helpers/mar.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { startIn } from '../helpers/start-in.js';
import { until } from '../helpers/until.js';

const handlerSource = 'export default { handle: (batch) => batch.map(({ request }) => request.text()) };';
const models = { echo: { handlerSource, config: { minWorkers: 1, maxWorkers: 1 } } };
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'security-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

let server: TestServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const ask = (url: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(url, { method, headers }).then((it) => it.status);

describe('tokens', () => {
  it('are written for their owner, let in who has them, are renewed, and stand in no log', async () => {
    const keyFile = join(folder, 'keys.json');
    server = await startServer({
      models,
      config: {
        disable_token_authorization: false,
        token_key_file: keyFile,
        cors_allowed_origin: '*',
        cors_allowed_methods: 'GET',
      },
    });
    const read = async () =>
      JSON.parse(await readFile(keyFile, 'utf8')) as Record<'inference' | 'management' | 'API', { key: string }>;
    const keys = await read();
    const timed = { key: expect.any(String), 'expiration time': expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) };
    expect(keys).toEqual({ management: timed, inference: timed, API: { key: expect.any(String) } });
    expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
    const { inference, management, metrics } = server;
    const predict = (headers: Record<string, string>) => post(`${inference}/predictions/echo`, 'x', headers);
    const refused = await predict({});
    expect(refused).toMatchObject({ status: 400, json: { type: 'InvalidKeyException', reason: 'unauthorized' } });
    expect(refused.headers.get('access-control-allow-origin')).toBe('*');
    expect((await predict(bearer(keys.management.key))).status).toBe(400);
    expect((await predict(bearer(keys.inference.key))).text).toBe('x');
    expect(await ask(`${management}/models`, bearer(keys.inference.key))).toBe(400);
    expect(await ask(`${management}/models`, bearer(keys.management.key))).toBe(200);
    expect(await ask(`${management}/logging`)).toBe(400);
    // Probes, metrics and the questions of browsers carry no tokens.
    for (const url of [`${inference}/ping`, `${inference}/health/live`, `${inference}/health/ready`, `${metrics}/metrics`])
      expect(await ask(url)).toBe(200);
    const preflight = { origin: 'https://a', 'access-control-request-method': 'GET' };
    expect(await ask(`${inference}/predictions/echo`, preflight, 'OPTIONS')).toBe(204);
    expect(await ask(`${inference}/nothing`)).toBe(400);
    expect(await ask(`${inference}/nothing`, bearer(keys.inference.key))).toBe(404);

    const renewed = await get(`${management}/token?type=inference`);
    expect(renewed.status).toBe(400);
    expect(await ask(`${management}/token?type=inference`, bearer(keys.API.key))).toBe(200);
    const next = await read();
    expect(next.inference.key).not.toBe(keys.inference.key);
    expect(next.management.key).toBe(keys.management.key);
    expect((await predict(bearer(keys.inference.key))).status).toBe(400);
    expect((await predict(bearer(next.inference.key))).status).toBe(200);
    expect(server.logs()).toContain(`of ${keyFile}`);
    for (const { key } of [...Object.values(keys), ...Object.values(next)]) expect(server.logs()).not.toContain(key);
  });

  it('hold for gRPC too', async () => {
    const keyFile = join(folder, 'grpc-keys.json');
    server = await startServer({ models, config: { disable_token_authorization: false, token_key_file: keyFile } });
    const client = new GrpcClient(server.grpcInference);
    const call = async (token?: string) => {
      const metadata: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
      return (await client.call('inference', 'Predictions', { model_name: 'echo', input: input({ data: 'x' }) }, { metadata }))
        .code;
    };
    const { inference } = JSON.parse(await readFile(keyFile, 'utf8')) as { inference: { key: string } };
    expect(await call()).toBe(status.PERMISSION_DENIED);
    expect(await call('wrong')).toBe(status.PERMISSION_DENIED);
    expect(await call(inference.key)).toBe(status.OK);
    expect((await client.call('inference', 'Ping')).code).toBe(status.OK);
    client.close();
  });

  it('given by a variable and by a secret file need no key file; the file may change', async () => {
    const secret = join(folder, 'secret');
    await writeFile(secret, 'first\n');
    const environment = { ONNXSERVE_INFERENCE_TOKEN: 'by-variable', ONNXSERVE_MANAGEMENT_TOKEN_FILE: secret };
    server = await startServer({
      models,
      config: { disable_token_authorization: false, token_key_file: '/nowhere/at/all' },
      environment,
    });
    const { inference, management } = server;
    expect((await post(`${inference}/predictions/echo`, 'x', bearer('by-variable'))).status).toBe(200);
    expect(await ask(`${management}/models`, bearer('by-variable'))).toBe(400);
    expect(await ask(`${management}/models`, bearer('first'))).toBe(200);
    await writeFile(secret, 'second');
    await until(async () => ((await ask(`${management}/models`, bearer('second'))) === 200 ? true : undefined), 'the new secret');
    expect(await ask(`${management}/models`, bearer('first'))).toBe(400);
    expect(await ask(`${management}/token?type=inference`, bearer('second'))).toBe(404);
    expect(server.logs()).not.toMatch(/by-variable|second/);
  });

  it('are not needed on loopback, and needed for management elsewhere', async () => {
    const cwd = await mkdtemp(join(folder, 'open-'));
    const any = ['inference_address', 'metrics_address'].map((key) => `${key}=http://127.0.0.1:0`);
    const set = ['--set', ...any, 'management_address=http://0.0.0.0:0', 'grpc_inference_port=0', 'grpc_management_port=0'];
    const open = await startIn(cwd, ['start', '--foreground', '--ncs', '--model-store', folder, ...set]);
    const management = open.management.replace('0.0.0.0', '127.0.0.1');
    expect(await ask(`${management}/models`)).toBe(400);
    expect(await ask(`${open.inference}/v1/models`)).toBe(200);
    const { management: key } = JSON.parse(await readFile(join(cwd, 'key_file.json'), 'utf8')) as { management: { key: string } };
    expect(await ask(`${management}/models`, bearer(key.key))).toBe(200);
    await open.end();
  });

  it('are not for handlers', async () => {
    const tells = `export default { handle: (batch) => batch.map(() => Object.keys(process.env).filter((name) => name.endsWith('_TOKEN'))) };`;
    server = await startServer({
      models: { tells: { handlerSource: tells } },
      environment: { ONNXSERVE_MANAGEMENT_TOKEN: 'hidden-one' },
    });
    expect((await post(`${server.inference}/predictions/tells`, 'x')).json).toEqual([]);
  });

  it('of a server that runs are not overwritten by a start that fails', async () => {
    const keyFile = join(folder, 'kept.json');
    server = await startServer({ models, config: { disable_token_authorization: false, token_key_file: keyFile } });
    const before = await readFile(keyFile, 'utf8');
    const taken = server.inference;
    const set = [`inference_address=${taken}`, 'disable_token_authorization=false', `token_key_file=${keyFile}`];
    const others = [
      'management_address=http://127.0.0.1:0',
      'metrics_address=http://127.0.0.1:0',
      'grpc_inference_port=0',
      'grpc_management_port=0',
    ];
    const second = await runCommand(
      ['start', '--foreground', '--ncs', '--model-store', folder, '--set', ...set, ...others],
      folder,
      {
        TMPDIR: folder,
        ONNXSERVE_ANNOUNCE: '1',
      },
    );
    expect(second).toMatchObject({ code: 1, stderr: expect.stringContaining('in use already') });
    expect(await readFile(keyFile, 'utf8')).toBe(before);
  });

  it('that cannot be written stop the start with what to set', async () => {
    const result = await runCommand(
      [
        'start',
        '--foreground',
        '--ncs',
        '--model-store',
        folder,
        '--set',
        'disable_token_authorization=false',
        'token_key_file=/nowhere/keys.json',
        ...['inference_address', 'management_address', 'metrics_address'].map((key) => `${key}=http://127.0.0.1:0`),
        'grpc_inference_port=0',
        'grpc_management_port=0',
      ],
      folder,
      { TMPDIR: folder, ONNXSERVE_ANNOUNCE: '1' },
    );
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(/\/nowhere\/keys\.json.*token_key_file.*ONNXSERVE_MANAGEMENT_TOKEN/);
  });
});

describe('TLS', () => {
  const own = makeCertificate();

  async function files(name: string, { key, certificate } = own): Promise<Record<string, string>> {
    const paths = { certificate_file: join(folder, `${name}.pem`), private_key_file: join(folder, `${name}.key`) };
    await writeFile(paths.certificate_file, certificate);
    await writeFile(paths.private_key_file, key);
    return paths;
  }

  const https = (url: string, ca = own.certificate, body?: string) =>
    new Promise<{ status: number; text: string; subject: string }>((resolve, reject) => {
      const request = httpsRequest(url, { ca, method: body === undefined ? 'GET' : 'POST', agent: false }, (response) => {
        const subject = (response.socket as unknown as { getPeerCertificate(): { serialNumber: string } }).getPeerCertificate()
          .serialNumber;
        void text(response).then((it) => resolve({ status: response.statusCode ?? 0, text: it, subject }));
      });
      request.once('error', reject);
      request.end(body);
    });
  const secured = (more: Record<string, string | boolean>) => ({
    inference_address: 'https://127.0.0.1:0',
    management_address: 'https://127.0.0.1:0',
    metrics_address: 'https://127.0.0.1:0',
    ...more,
  });
  /** The helper's own calls do not trust the certificate. */
  const start = (more: Record<string, string | boolean>) => startServer({ models, config: secured(more) });

  it.each(['TLSv1.2', 'TLSv1.3'] as const)('speaks %s on every listener', async (version) => {
    server = await start(await files(version));
    for (const address of [server.inference, server.management, server.metrics]) {
      expect(address).toMatch(/^https:/);
      const { hostname, port } = new URL(address);
      const socket = connectTls({
        host: hostname,
        port: Number(port),
        ca: own.certificate,
        minVersion: version,
        maxVersion: version,
      });
      await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
      expect(socket.getProtocol()).toBe(version);
      socket.destroy();
    }
    expect(await https(`${server.inference}/predictions/echo`, own.certificate, 'x')).toMatchObject({ status: 200, text: 'x' });
    expect((await https(`${server.management}/models`)).status).toBe(200);
    expect((await https(`${server.metrics}/metrics`)).text).toContain('onnxserve_');
  });

  it('refuses TLS 1.1, and plain HTTP without harm to others', async () => {
    server = await start(await files('old'));
    const { hostname, port } = new URL(server.inference);
    const old = connectTls({
      host: hostname,
      port: Number(port),
      ca: own.certificate,
      minVersion: 'TLSv1.1',
      maxVersion: 'TLSv1.1',
    });
    await expect(new Promise((resolve, reject) => old.once('secureConnect', resolve).once('error', reject))).rejects.toThrow();
    const plain = connect(Number(port), hostname);
    plain.write('GET /ping HTTP/1.1\r\nHost: a\r\n\r\n');
    const told = await text(plain);
    expect(told).toMatch(/^HTTP\/1\.1 403 /);
    expect(told).toContain('This port speaks TLS; use https://');
    expect((await https(`${server.inference}/ping`)).status).toBe(200);
  });

  it('takes a PKCS12 key store, for gRPC too', async () => {
    const keystore = join(folder, 'keys.p12');
    await writeFile(keystore, makePkcs12(own, 'sesame'));
    server = await start({ keystore, keystore_pass: 'sesame', enable_grpc_ssl: true });
    expect((await https(`${server.inference}/ping`)).status).toBe(200);
    const client = new GrpcClient(server.grpcInference, credentials.createSsl(Buffer.from(own.certificate)));
    expect((await client.call('inference', 'Ping')).code).toBe(status.OK);
    client.close();
    expect(server.logs()).not.toContain('sesame');
  });

  it('uses a certificate that was renewed, without a restart, for gRPC too', async () => {
    const paths = await files('renewed');
    server = await start({ ...paths, enable_grpc_ssl: true });
    const before = (await https(`${server.inference}/ping`)).subject;
    const next = makeCertificate();
    await writeFile(paths['private_key_file']!, next.key);
    await writeFile(paths['certificate_file']!, next.certificate);
    const { inference } = server;
    const after = await until(async () => {
      const found = await https(`${inference}/ping`, next.certificate).catch(() => undefined);
      return found?.subject === before ? undefined : found?.subject;
    }, 'the new certificate is used');
    expect(after).not.toBe(before);
    const client = new GrpcClient(server.grpcInference, credentials.createSsl(Buffer.from(next.certificate)));
    expect((await client.call('inference', 'Ping')).code).toBe(status.OK);
    client.close();
  });

  it.each<[string, () => Promise<Record<string, string>>, RegExp]>([
    ['nothing', async () => ({}), /inference_address asks for TLS; set certificate_file and private_key_file/],
    [
      'an expired certificate',
      () => files('expired', makeCertificate({ until: new Date(Date.now() - 1000) })),
      /expired\.pem has expired/,
    ],
    [
      "another key's certificate",
      async () => files('other', { key: makeCertificate().key, certificate: own.certificate }),
      /other\.key is not the key of the first certificate/,
    ],
    ['a wrong password', async () => ({ keystore: join(folder, 'keys.p12'), keystore_pass: 'wrong' }), /the password is wrong/],
  ])('does not start with %s', async (_, more, message) => {
    const set = Object.entries(secured(await more())).map(([key, value]) => `${key}=${value}`);
    const ports = ['grpc_inference_port=0', 'grpc_management_port=0'];
    const result = await runCommand(
      ['start', '--foreground', '--ncs', '--dt', '--model-store', folder, '--set', ...set, ...ports],
      folder,
      { TMPDIR: folder, ONNXSERVE_ANNOUNCE: '1' },
    );
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(message);
  });
});

describe('archives from the network', () => {
  let origin: Server;
  let answer: RequestListener;
  let at: string;
  let asked: string[];
  let archive: Buffer;
  beforeAll(async () => {
    archive = await readFile(await makeMar(folder, 'far', { handlerSource }));
    origin = createServer((request, response) => {
      asked.push(request.url ?? '');
      answer(request, response);
    });
    await new Promise<void>((resolve) => origin.listen(0, '127.0.0.1', resolve));
    at = `127.0.0.1:${(origin.address() as AddressInfo).port}`;
  });
  afterAll(() => new Promise((resolve) => origin.close(resolve)));

  const serve: RequestListener = (_, response) => response.end(archive);
  async function register(config: Record<string, string | boolean>, url: string) {
    asked = [];
    server = await startServer({ config });
    return await post(`${server.management}/models?url=${encodeURIComponent(url)}`, '');
  }

  it('are not fetched until allowed_urls says so', async () => {
    answer = serve;
    const refused = await register({}, `http://${at}/far.mar`);
    expect(refused).toMatchObject({ status: 404, json: { reason: 'url-not-allowed' } });
    expect(messageOf(refused)).toContain('allowed_urls is empty');
    expect(asked).toEqual([]);
  });

  it('are fetched from private addresses only where that is allowed, whatever name leads there', async () => {
    answer = serve;
    for (const host of [
      at,
      at.replace('127.0.0.1', 'localhost'),
      at.replace('127.0.0.1', '127.1'),
      at.replace('127.0.0.1', '0x7f000001'),
    ]) {
      const refused = await register({ allowed_urls: 'http://.*', allow_private_urls: false }, `http://${host}/far.mar`);
      expect(refused.status).toBe(404);
      expect(messageOf(refused)).toMatch(/leads to (127\.0\.0\.1|::1), a private address; allow_private_urls=true allows it/);
      expect(asked).toEqual([]);
      await server?.stop();
    }
    const named = await register(
      { allowed_urls: 'http://127\\\\.0\\\\.0\\\\.1:.*', allow_private_urls: false },
      `http://${at}/far.mar`,
    );
    expect(named.status).toBe(200);
  });

  it('never lead to the credentials of a cloud', async () => {
    const refused = await register({ allowed_urls: 'http://.*' }, 'http://169.254.169.254/latest/meta-data');
    expect(refused.status).toBe(404);
    expect(messageOf(refused)).toContain('a link-local address');
  });

  it.each([
    ['http://localhost:PORT/far.mar', /redirects to another host/],
    ['file:///etc/passwd', /only http and https are followed/],
    ['http://169.254.169.254/x', /redirects to another host/],
    ['http://127.0.0.1:1/far.mar', /redirects to another host, http:\/\/127\.0\.0\.1:1/],
  ])('do not follow a redirect to %s', async (location, message) => {
    answer = (_request, response) => {
      response.writeHead(302, { location: location.replace('PORT', at.split(':')[1]!) }).end();
    };
    const refused = await register({ allowed_urls: '.*' }, `http://${at}/far.mar`);
    expect(refused.status).toBe(404);
    expect(messageOf(refused)).toMatch(message);
    expect(asked).toEqual(['/far.mar']);
  });

  it('follow a redirect on the same host', async () => {
    answer = (request, response) =>
      request.url === '/far.mar' ? void response.writeHead(302, { location: '/v2/far.mar' }).end() : serve(request, response);
    expect((await register({ allowed_urls: 'http://.*' }, `http://${at}/far.mar`)).status).toBe(200);
    expect(asked).toEqual(['/far.mar', '/v2/far.mar']);
  });

  it.each([
    ['../../etc/passwd', /no archive|not in the model store/],
    ['..%2f..%2fetc%2fpasswd', /no archive|not in the model store/],
    ['file:///etc/passwd', /not allowed/],
    ['http://user:secret@127.0.0.1/x.mar', /user name or password/],
    ['ftp://127.0.0.1/x.mar', /no url that can be fetched/],
    ['http://[::ffff:169.254.169.254]/x.mar', /link-local/],
  ])('are refused by name: %s', async (url, message) => {
    const refused = await register({ allowed_urls: 'http://.*,file:///allowed/.*' }, url);
    expect(refused.status).toBe(404);
    expect(messageOf(refused)).toMatch(message);
    expect(refused.text).not.toContain('secret');
  });

  it('a link in an allowed folder leads nowhere else', async () => {
    await symlink('/etc/passwd', join(folder, 'link.mar'));
    const refused = await register({ allowed_urls: `file://${folder}/.*` }, `file://${folder}/link.mar`);
    expect(refused.status).toBe(404);
    expect(messageOf(refused)).toContain('not allowed');
  });
});
