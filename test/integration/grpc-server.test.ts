import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ChannelCredentials, Client, connectivityState, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Answer, type Conversation, GrpcClient, input, type Message } from '../helpers/grpc.js';
import { runToEnd, type ServerOptions, startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const asks = { handler: 'grpc', config: { minWorkers: 1, maxWorkers: 1 } };
const tls = fileURLToPath(new URL('../fixtures/tls/', import.meta.url));

async function started(options: ServerOptions): Promise<TestServer> {
  const server = await startServer(options);
  onTestFinished(async () => void (await server.stop()));
  return server;
}
function connected(address: string, creds?: ChannelCredentials, options?: object): GrpcClient {
  const client = new GrpcClient(address, creds, options);
  onTestFinished(() => client.close());
  return client;
}
const predict = (client: GrpcClient, what: object) =>
  client.call('inference', 'Predictions', { model_name: 'asks', input: input({ data: JSON.stringify(what) }) });
const textOf = ({ messages }: Answer) => (messages[0] as { prediction: Buffer }).prediction.toString();
const statuses = (watch: Conversation) => watch.messages.map(({ status: told }: Message) => told as string);

describe('management', () => {
  let server: TestServer;
  let client: GrpcClient;
  const call = async (name: string, message: object) => {
    const answer = await client.call('management', name, message);
    return { code: answer.code, details: answer.details, msg: answer.messages[0]?.msg as string };
  };

  beforeAll(async () => {
    server = await startServer({ models: { asks }, config: { load_models: '' } });
    client = new GrpcClient(server.grpcManagement);
  });
  afterAll(async () => {
    client.close();
    await server.stop();
  });

  it('registers, lists, describes, scales, and removes a model; its health follows', async () => {
    const watch = client.stream('health', 'Watch', { service: 'asks' });
    await watch.until(1);
    expect(await call('RegisterModel', { url: 'asks.mar', synchronous: true })).toMatchObject({ code: status.OK });
    const list = JSON.parse((await call('ListModels', { limit: -1 })).msg);
    expect(list.models.map((model: Message) => model.modelName)).toEqual(['asks']);
    const [described] = JSON.parse((await call('DescribeModel', { model_name: 'asks', customized: false })).msg);
    expect(described).toMatchObject({ modelName: 'asks', minWorkers: 1 });
    expect(await call('ScaleWorker', { model_name: 'asks', min_worker: 2, max_worker: 2, synchronous: true })).toMatchObject({
      code: status.OK,
      msg: expect.stringContaining('2'),
    });
    expect((await client.call('health', 'Check', { service: 'asks' })).messages).toEqual([{ status: 'SERVING' }]);
    expect(await call('SetDefault', { model_name: 'asks', model_version: '1.0' })).toMatchObject({ code: status.OK });
    expect(await call('UnregisterModel', { model_name: 'asks' })).toMatchObject({ code: status.OK });
    await until(
      async () => (statuses(watch).at(-1) === 'SERVICE_UNKNOWN' && watch.messages.length > 2 ? true : undefined),
      'gone',
    );
    expect(statuses(watch)).toEqual(expect.arrayContaining(['SERVICE_UNKNOWN', 'SERVING']));
    expect(statuses(watch)[0]).toBe('SERVICE_UNKNOWN');
    watch.cancel();
  });

  it.each([
    ['RegisterModel', {}, status.INVALID_ARGUMENT, 'url'],
    ['RegisterModel', { url: 'absent.mar' }, status.NOT_FOUND, 'absent.mar'],
    ['RegisterModel', { url: 'asks.mar', batch_size: -2 }, status.INVALID_ARGUMENT, 'batch_size'],
    ['RegisterModel', { url: 'http://127.0.0.1:1/x.mar' }, status.INVALID_ARGUMENT, 'allowed_urls'],
    ['ScaleWorker', { model_name: 'nobody' }, status.NOT_FOUND, 'nobody'],
    ['ScaleWorker', { model_name: 'x', min_worker: 3, max_worker: 1 }, status.INVALID_ARGUMENT, 'min_worker'],
    ['SetDefault', { model_name: 'asks' }, status.INVALID_ARGUMENT, 'model_version'],
    ['UnregisterModel', {}, status.INVALID_ARGUMENT, 'model_name'],
    ['DescribeModel', { model_name: 'nobody' }, status.NOT_FOUND, 'nobody'],
  ])('%s of %j', async (name, message, code, named) => {
    expect(await call(name, message)).toMatchObject({ code, details: expect.stringContaining(named) });
  });

  it('is on its own port only', async () => {
    const inference = connected(server.grpcInference);
    expect((await inference.call('management', 'ListModels')).code).toBe(status.UNIMPLEMENTED);
    expect((await client.call('inference', 'Ping')).code).toBe(status.UNIMPLEMENTED);
  });
});

it('without the model API models are scaled but neither registered nor removed', async () => {
  const server = await started({ models: { asks }, config: { enable_model_api: false } });
  const client = connected(server.grpcManagement);
  for (const [name, message] of [
    ['RegisterModel', { url: 'asks.mar' }],
    ['UnregisterModel', { model_name: 'asks' }],
  ] as const) {
    const { code, details } = await client.call('management', name, message);
    expect([code, details]).toEqual([status.PERMISSION_DENIED, expect.stringContaining('enable_model_api')]);
  }
  const scaled = await client.call('management', 'ScaleWorker', { model_name: 'asks', min_worker: 1, synchronous: true });
  expect(scaled.code).toBe(status.OK);
});

it('equal unix sockets share one listener, which reflection describes', async () => {
  const socket = `unix:${join(tmpdir(), `onnxserve-grpc-${process.pid}.sock`)}`;
  const server = await started({ models: { asks }, config: { grpc_inference_address: socket, grpc_management_address: socket } });
  expect([server.grpcInference, server.grpcManagement]).toEqual([socket, socket]);
  const client = connected(socket);
  expect(textOf(await predict(client, { do: 'sleep', text: 'here' }))).toBe('here');
  expect((await client.call('management', 'ListModels')).code).toBe(status.OK);
  expect((await client.call('health', 'Check', { service: 'nobody' })).code).toBe(status.NOT_FOUND);
  expect((await client.call('health', 'Check')).messages).toEqual([{ status: 'SERVING' }]);
  expect(await listed(socket)).toEqual([
    'grpc.health.v1.Health',
    'org.pytorch.serve.grpc.inference.InferenceAPIsService',
    'org.pytorch.serve.grpc.management.ManagementAPIsService',
    'org.pytorch.serve.grpc.openinference.GRPCInferenceService',
  ]);
});

/** Services as a client learns them that has no definitions. */
async function listed(address: string): Promise<string[]> {
  const file = fileURLToPath(
    new URL('../../node_modules/@grpc/reflection/build/proto/grpc/reflection/v1/reflection.proto', import.meta.url),
  );
  // oxlint-disable-next-line typescript/no-explicit-any
  const { ServerReflectionInfo } = loadSync(file)['grpc.reflection.v1.ServerReflection'] as any;
  const client = new Client(address, credentials.createInsecure());
  const { path, requestSerialize, responseDeserialize } = ServerReflectionInfo;
  const call = client.makeBidiStreamRequest<Message, Message>(path, requestSerialize, responseDeserialize);
  call.write({ listServices: '*' });
  const answer = await new Promise<Message>((resolve, reject) => call.once('data', resolve).once('error', reject));
  call.end();
  client.close();
  return answer.listServicesResponse.service.map(({ name }: Message) => name as string).sort();
}

it('speaks TLS when asked, and nothing else then', async () => {
  const server = await started({
    models: { asks },
    config: { enable_grpc_ssl: true, certificate_file: join(tls, 'certificate.pem'), private_key_file: join(tls, 'key.pem') },
  });
  const trusted = credentials.createSsl(await readFile(join(tls, 'certificate.pem')));
  const named = { 'grpc.ssl_target_name_override': 'localhost' };
  expect(textOf(await predict(connected(server.grpcInference, trusted, named), { do: 'sleep', text: 'secret' }))).toBe('secret');
  expect((await connected(server.grpcManagement, trusted, named).call('management', 'ListModels')).code).toBe(status.OK);
  const { code } = await predict(connected(server.grpcInference), { do: 'show' });
  expect(code).toBe(status.UNAVAILABLE);
});

describe('a start that cannot work says why', () => {
  it.each([
    [{ enable_grpc_ssl: true }, 'certificate_file'],
    [{ enable_grpc_ssl: true, certificate_file: 'absent.pem', private_key_file: 'absent.pem' }, 'absent.pem'],
    [{ grpc_inference_address: 'http://127.0.0.1' }, 'without scheme'],
    [{ grpc_management_address: '192.0.2.1' }, 'grpc_management_address=192.0.2.1'],
  ])('%j', async (config, named) => {
    const { code, output } = await runToEnd({ config });
    expect([code, output]).toEqual([1, expect.stringContaining(named)]);
  });

  it('a port in use', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void other.close());
    const { port } = other.address() as { port: number };
    const { code, output } = await runToEnd({ config: { grpc_management_port: port } });
    expect(code).toBe(1);
    expect(output).toContain(`grpc_management_port=${port}: port ${port} of 127.0.0.1 is in use already`);
  });
});

it('a stop lets calls finish, turns health, ends watchers and idle streams, and refuses what comes', async () => {
  const server = await started({ models: { asks }, config: { shutdown_timeout: 20 } });
  const client = connected(server.grpcInference);
  const watch = client.stream('health', 'Watch', { service: '' });
  const ofModel = client.stream('health', 'Watch', { service: 'asks' });
  const idle = client.talk('inference', 'StreamPredictions2');
  idle.call.write?.({ model_name: 'asks', sequence_id: 's', input: input({ data: '{"do":"sleep","text":"begun"}' }) });
  await Promise.all([watch.until(1), ofModel.until(1), idle.until(1)]);
  const running = predict(client, { do: 'sleep', ms: 1500, text: 'finished' });
  await until(async () => {
    const text = await (await fetch(`${server.metrics}/metrics`)).text();
    return /^onnxserve_in_flight\{[^}]*model="asks"[^}]*\} 1$/m.test(text) ? true : undefined;
  }, 'it runs');
  const stopped = server.stop();
  await watch.until(2);
  const late = await predict(client, { do: 'show' });
  expect([late.code, late.details]).toEqual([status.UNAVAILABLE, expect.stringContaining('shutting down')]);
  expect(textOf(await running)).toBe('finished');
  expect(await stopped).toBe(0);
  expect(statuses(watch)).toEqual(['SERVING', 'NOT_SERVING']);
  expect(statuses(ofModel)[1]).toBe('NOT_SERVING');
  for (const stream of [watch, ofModel, idle]) expect((await stream.ended()).code).toBe(status.UNAVAILABLE);
});

it('a connection that has reached its age is closed, and its calls go on', async () => {
  const server = await started({
    models: { asks },
    config: { grpc_inference_max_connection_age_ms: 200, grpc_inference_max_connection_age_grace_ms: 20_000 },
  });
  const client = new Client(server.grpcInference, credentials.createInsecure());
  onTestFinished(() => client.close());
  await new Promise<ServiceError | undefined>((resolve) =>
    client.waitForReady(Date.now() + 10_000, (error) => resolve(error as ServiceError)),
  );
  const over = connected(server.grpcInference);
  expect(textOf(await predict(over, { do: 'sleep', ms: 600, text: 'old' }))).toBe('old');
  // Two means that the first was told to go away.
  expect(textOf(await predict(over, { do: 'sleep', text: 'new' }))).toBe('new');
  await until(
    async () => (client.getChannel().getConnectivityState(false) === connectivityState.IDLE ? true : undefined),
    'an idle connection is closed',
  );
});
