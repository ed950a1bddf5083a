import { fileURLToPath } from 'node:url';
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  type ClientReadableStream,
  credentials,
  Metadata,
  type MethodDefinition,
  type ServiceError,
  type StatusObject,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const folder = fileURLToPath(new URL('../../packages/runtime/proto/', import.meta.url));
const definitions = loadSync(
  [
    'inference.proto',
    'management.proto',
    'open_inference_grpc.proto',
    'grpc/health/v1/health.proto',
    'google/rpc/error_details.proto',
  ],
  { includeDirs: [folder], keepCase: true, longs: String, enums: String, defaults: true },
);
const services = {
  inference: 'org.pytorch.serve.grpc.inference.InferenceAPIsService',
  management: 'org.pytorch.serve.grpc.management.ManagementAPIsService',
  openInference: 'org.pytorch.serve.grpc.openinference.GRPCInferenceService',
  health: 'grpc.health.v1.Health',
} as const;
export type ServiceName = keyof typeof services;
// Messages are what the tests make of them.
// oxlint-disable-next-line typescript/no-explicit-any
export type Message = any;

function methodOf(service: ServiceName, name: string): MethodDefinition<Message, Message> {
  const definition = definitions[services[service]] as unknown as Record<string, MethodDefinition<Message, Message>>;
  const method = definition[name];
  if (method === undefined) throw new Error(`no method ${service}/${name}`);
  return method;
}

/** Reads a message of the given type out of its bytes. */
export function decoded(type: string, bytes: Uint8Array): Message {
  const definition = definitions[type] as unknown as { deserialize(bytes: Buffer): Message };
  return definition.deserialize(Buffer.from(bytes));
}

export interface Answer {
  readonly code: number;
  readonly details: string;
  readonly messages: readonly Message[];
  readonly headers: Metadata;
  readonly trailers: Metadata;
}

/** A stream that goes on; each message can be waited for. */
export class Conversation {
  readonly messages: Message[] = [];
  status: StatusObject | undefined;
  headers = new Metadata();
  #wake: Array<() => void> = [];

  constructor(readonly call: ClientReadableStream<Message> & { write?(message: Message): void; end?(): void }) {
    call.on('data', (message: Message) => {
      this.messages.push(message);
      this.#woken();
    });
    call.on('metadata', (metadata: Metadata) => (this.headers = metadata));
    call.on('error', () => undefined); // the status says the same
    call.on('status', (status: StatusObject) => {
      this.status = status;
      this.#woken();
    });
  }

  /** Resolves when so many messages have come. @throws when the stream ends before */
  async until(count: number): Promise<readonly Message[]> {
    while (this.messages.length < count) {
      if (this.status !== undefined) throw new Error(`ended after ${this.messages.length} messages: ${this.status.details}`);
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
    return this.messages;
  }

  cancel(): void {
    this.call.cancel();
  }

  async ended(): Promise<Answer> {
    while (this.status === undefined) await new Promise<void>((resolve) => this.#wake.push(resolve));
    const { code, details, metadata } = this.status;
    return { code, details, messages: this.messages, headers: this.headers, trailers: metadata };
  }

  #woken(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const resolve of waiting) resolve();
  }
}

/** A client of every service behind one address. */
export class GrpcClient {
  readonly #client: Client;

  constructor(address: string, creds: ChannelCredentials = credentials.createInsecure(), options: object = {}) {
    this.#client = new Client(address, creds, { 'grpc.max_receive_message_length': -1, ...options });
  }

  close(): void {
    this.#client.close();
  }

  /** A unary call; errors are answers too. */
  async call(
    service: ServiceName,
    name: string,
    message: Message = {},
    options: { metadata?: Readonly<Record<string, string>>; deadlineMs?: number; signal?: AbortSignal } = {},
  ): Promise<Answer> {
    const { path, requestSerialize, responseDeserialize } = methodOf(service, name);
    return await new Promise<Answer>((resolve) => {
      const messages: Message[] = [];
      let headers = new Metadata();
      const call = this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        message,
        metadataOf(options.metadata),
        callOptions(options.deadlineMs),
        (_error: ServiceError | null, answer?: Message) => {
          if (answer !== undefined) messages.push(answer);
        },
      );
      call.on('metadata', (metadata: Metadata) => (headers = metadata));
      call.on('status', ({ code, details, metadata }: StatusObject) =>
        resolve({ code, details, messages, headers, trailers: metadata }),
      );
      options.signal?.addEventListener('abort', () => call.cancel());
    });
  }

  /** A call that is answered by a stream. */
  stream(service: ServiceName, name: string, message: Message = {}, metadata?: Readonly<Record<string, string>>): Conversation {
    const { path, requestSerialize, responseDeserialize } = methodOf(service, name);
    return new Conversation(
      this.#client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, message, metadataOf(metadata)),
    );
  }

  /** A call with a stream each way. */
  talk(service: ServiceName, name: string): Conversation {
    const { path, requestSerialize, responseDeserialize } = methodOf(service, name);
    return new Conversation(this.#client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize));
  }

  /** A unary call of a method that no definition names, or with a message that is none. */
  async raw(path: string, bytes: Buffer): Promise<Answer> {
    const as = (it: Buffer) => it;
    return await new Promise<Answer>((resolve) => {
      this.#client
        .makeUnaryRequest(path, as, as, bytes, () => undefined)
        .on('status', ({ code, details, metadata }: StatusObject) =>
          resolve({ code, details, messages: [], headers: new Metadata(), trailers: metadata }),
        );
    });
  }
}

function metadataOf(entries: Readonly<Record<string, string>> = {}): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(entries)) metadata.add(name, value);
  return metadata;
}

function callOptions(deadlineMs: number | undefined): CallOptions {
  return deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
}

/** An input of Predictions. */
export function input(values: Readonly<Record<string, string | Buffer>>): Record<string, Buffer> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Buffer.from(value as string)]));
}
