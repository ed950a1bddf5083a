import { Client, credentials, type Deadline, Metadata, type MethodDefinition, type ServiceError, status } from '@grpc/grpc-js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { FakeInference, FakeManagement, listenerConfig, reply } from '../../../test-support/listeners.js';
import { ServeError } from '../../domain/errors.js';
import { monotonicNow } from '../../domain/request.js';
import { serviceDefinition, type serviceNames } from './definitions.js';
import { type GrpcOptions, startGrpcListeners } from './start.js';

type Message = Record<string, unknown>;

async function open(options: Partial<GrpcOptions> = {}) {
  const inference = (options.inference as FakeInference | undefined) ?? new FakeInference();
  const management = new FakeManagement();
  const listeners = await startGrpcListeners({
    config: listenerConfig(),
    management,
    readiness: () => ({ live: true, ready: true, phase: 'serving', problems: [], models: [] }),
    version: '0.0.0',
    sequenceKeys: { id: 'seq_id', start: 'seq_start', end: 'seq_end' },
    ...options,
    inference,
  });
  onTestFinished(() => listeners.close(1000).then(() => undefined));
  const { grpcInference, grpcManagement } = listeners.addresses;
  const call = (
    service: keyof typeof serviceNames,
    name: string,
    message: Message,
    given: Record<string, string> = {},
    deadline?: Deadline,
  ) =>
    new Promise<{ code: number; details: string; message: Message | undefined }>((resolve) => {
      const { path, requestSerialize, responseDeserialize } = serviceDefinition(service)[name] as MethodDefinition<
        Message,
        Message
      >;
      const metadata = new Metadata();
      for (const [key, value] of Object.entries(given)) metadata.set(key, value);
      const client = new Client(service === 'management' ? grpcManagement : grpcInference, credentials.createInsecure());
      const finish = (error: ServiceError | null, answer?: Message) => {
        client.close();
        resolve({ code: error?.code ?? status.OK, details: error?.details ?? '', message: answer });
      };
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        message,
        metadata,
        deadline === undefined ? {} : { deadline },
        finish,
      );
    });
  return { call, inference, management, listeners };
}

const predictions = { model_name: 'kit', input: { data: Buffer.from('x') } };

describe('a caller', () => {
  const asked: Array<[string, string | undefined]> = [];
  const authorizer = {
    check: (scope: string, authorization: string | undefined) => {
      asked.push([scope, authorization]);
      return authorization === `Bearer ${scope}` ? undefined : new ServeError('UNAUTHORIZED', 'A token is missing or wrong.');
    },
  };

  it('needs the token of the API, but for probes', async () => {
    const { call, inference, management } = await open({ authorizer });
    for (const authorization of [undefined, 'Bearer management', 'bearer inference']) {
      const given: Record<string, string> = authorization === undefined ? {} : { authorization };
      expect(await call('inference', 'Predictions', predictions, given)).toMatchObject({
        code: status.PERMISSION_DENIED,
        details: 'A token is missing or wrong.',
      });
    }
    expect(inference.requests).toEqual([]);
    expect(inference.refusals).toHaveLength(3);
    expect((await call('management', 'ListModels', {})).code).toBe(status.PERMISSION_DENIED);
    expect(management.calls).toEqual([]);
    expect((await call('openInference', 'ModelReady', { name: 'kit' })).code).toBe(status.PERMISSION_DENIED);

    expect((await call('inference', 'Predictions', predictions, { authorization: 'Bearer inference' })).code).toBe(status.OK);
    expect((await call('management', 'ListModels', {}, { authorization: 'Bearer management' })).code).toBe(status.OK);
    asked.length = 0;
    for (const [service, name] of [
      ['inference', 'Ping'],
      ['health', 'Check'],
      ['openInference', 'ServerReady'],
    ] as const)
      expect((await call(service, name, {})).code).toBe(status.OK);
    expect(asked).toEqual([]);
  });
});

describe('a prediction', () => {
  it('with a deadline that is none is the mistake of its client', async () => {
    const { call, inference } = await open();
    const answer = await call('inference', 'Predictions', predictions, { 'grpc-timeout': 'soon' });
    expect(answer).toMatchObject({ code: status.INVALID_ARGUMENT, details: expect.stringContaining('grpc-timeout') });
    expect(inference.refusals).toHaveLength(1);
  });

  it('carries its parts, its place in a sequence and its deadline', async () => {
    const { call, inference } = await open();
    const input = {
      data: Buffer.from('xyz'),
      seq_start: Buffer.from('true'),
      seq_end: Buffer.from('false'),
      none: Buffer.alloc(0),
    };
    const before = monotonicNow();
    await call('inference', 'Predictions', { ...predictions, sequence_id: 's', input }, { 'x-a': '1' }, Date.now() + 5000);
    const { last } = inference;
    let at = 0;
    const parts = Object.fromEntries(
      (last.parts ?? []).map(([name, length]) => [name, last.body.toString('utf8', at, (at += length))]),
    );
    expect(parts).toEqual({ data: 'xyz', seq_start: 'true', seq_end: 'false', none: '' });
    expect(at).toBe(last.body.length);
    expect(last.sequence).toEqual({ id: 's', start: true, end: false });
    expect(last.rawHeaders).toEqual(expect.arrayContaining(['x-a', '1', 'seq_id', 's', 'seq_start', 'true']));
    const seconds = ((last.deadline ?? 0) - before) / 1e9;
    expect(seconds).toBeGreaterThan(3);
    expect(seconds).toBeLessThan(6);
  });

  it('may have an input without a value, as encoders may write an empty one', async () => {
    const { inference, listeners } = await open();
    const client = new Client(listeners.addresses.grpcInference, credentials.createInsecure());
    onTestFinished(() => client.close());
    // model_name "kit", then an entry of the map `input` that has its key alone.
    const bytes = Buffer.from('\n\u0003kit\u001a\u0006\n\u0004data');
    const same = (it: Buffer) => it;
    await new Promise<void>((resolve, reject) => {
      const path = '/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions';
      client.makeUnaryRequest(path, same, same, bytes, (error) => (error === null ? resolve() : reject(error)));
    });
    expect(inference.last.parts).toEqual([['data', 0]]);
    expect(inference.last.body).toEqual(Buffer.alloc(0));
  });

  it('takes the sequence of its metadata too, and is in none without', async () => {
    const { call, inference } = await open();
    await call('inference', 'Predictions', predictions, { seq_id: 'm', seq_end: 'true' });
    expect(inference.last.sequence).toEqual({ id: 'm', start: false, end: true });
    await call('inference', 'Predictions', predictions);
    expect(inference.last).not.toHaveProperty('sequence');
    expect(inference.last).not.toHaveProperty('deadline');
  });

  it('is abandoned as expired, not as left, when its deadline passes', async () => {
    let left = false;
    const inference = new FakeInference(({ client }) => {
      if (client !== undefined) client.onGone = () => (left = true);
      return new Promise(() => undefined);
    });
    const { call, listeners } = await open({ inference });
    expect((await call('inference', 'Predictions', predictions, {}, Date.now() + 300)).code).toBe(status.DEADLINE_EXCEEDED);
    expect(inference.requests).toHaveLength(1);
    await listeners.close(1000);
    expect(left).toBe(false);
  });

  it.each([
    ['Bad Name', 'v', status.INTERNAL],
    ['x-good', 'grüß', status.OK],
    ['content-type', 'text/plain', status.OK],
    ['grpc-status', '3', status.OK],
  ])('whose handler sets the header %s', async (name, value, code) => {
    const { call } = await open({ inference: new FakeInference(() => reply(Buffer.from('x'), { headers: [[name, value]] })) });
    expect((await call('inference', 'Predictions', predictions)).code).toBe(code);
  });
});
