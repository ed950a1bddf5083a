// Sends one recorded gRPC request and collects what comes back: the status code by name and the messages in protobuf JSON.
import { fileURLToPath } from 'node:url';
import { Client, credentials, Metadata, status } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const folder = fileURLToPath(new URL('../../../packages/runtime/proto/', import.meta.url));
const definitions = loadSync(['inference.proto', 'management.proto', 'open_inference_grpc.proto'], {
  includeDirs: [folder],
  keepCase: true,
  longs: String,
  enums: String,
  bytes: String,
  defaults: true,
  oneofs: false,
});
/** @type {Record<string, string>} services by the names that recordings use */
const services = {
  Inference: 'org.pytorch.serve.grpc.inference.InferenceAPIsService',
  Management: 'org.pytorch.serve.grpc.management.ManagementAPIsService',
  GRPCInferenceService: 'org.pytorch.serve.grpc.openinference.GRPCInferenceService',
};

/** @typedef {{ code: string, details: string, messages: any[] }} GrpcAnswer */

/** @param {string} rpc `Service/Method` @returns {import('@grpc/grpc-js').MethodDefinition<any, any> | undefined} */
export function methodOf(rpc) {
  const [service = '', method = ''] = rpc.split('/');
  const definition = /** @type {any} */ (definitions[services[service] ?? '']);
  return definition?.[method];
}

/** Text inputs of a prediction stand for UTF-8 bytes; other bytes are base64, as protobuf JSON has them. @param {any} message */
function bytesOf(message) {
  if (message.input === undefined) return message;
  const input = Object.entries(message.input).map(([name, text]) => [name, Buffer.from(String(text))]);
  return { ...message, input: Object.fromEntries(input) };
}

/** @param {any} request @param {(text: string) => string} fill */
function metadataOf(request, fill) {
  const metadata = new Metadata();
  const pairs = Array.isArray(request.metadata) ? request.metadata : Object.entries(request.metadata ?? {});
  for (const [name, value] of pairs) metadata.add(name, fill(String(value)));
  return metadata;
}

/**
 * @param {string} address `host:port`
 * @param {any} request
 * @param {(text: string) => string} fill puts present values in the place of placeholders
 * @param {number} limitMs how long to wait when the recording names no time
 * @returns {Promise<GrpcAnswer>}
 */
export async function grpcExchange(address, request, fill, limitMs) {
  const method = methodOf(request.rpc);
  if (!method) throw new Error(`no method ${request.rpc}`);
  const { path, requestSerialize, responseDeserialize, requestStream, responseStream } = method;
  const messages = (request.messages ?? [request.message ?? {}]).map((/** @type {any} */ message) =>
    bytesOf(JSON.parse(fill(JSON.stringify(message)))),
  );
  const metadata = metadataOf(request, fill);
  const options = { deadline: Date.now() + (request.timeout_s === undefined ? limitMs : request.timeout_s * 1000) };
  const client = new Client(address, credentials.createInsecure(), { 'grpc.max_receive_message_length': -1 });
  try {
    return await new Promise((resolve) => {
      /** @type {any[]} */
      const got = [];
      /** @param {{ code: number, details: string }} end */
      const done = ({ code, details }) => resolve({ code: status[code] ?? String(code), details, messages: got });
      if (!responseStream) {
        client.makeUnaryRequest(path, requestSerialize, responseDeserialize, messages[0], metadata, options, (error, message) => {
          if (message !== undefined) got.push(message);
          done(error ?? { code: status.OK, details: '' });
        });
        return;
      }
      /** @param {import('node:events').EventEmitter} call */
      const collect = (call) => {
        call.on('data', (message) => got.push(message));
        call.on('error', () => undefined); // the status says the same
        call.on('status', done);
      };
      if (!requestStream) {
        collect(client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, messages[0], metadata, options));
        return;
      }
      const call = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata, options);
      collect(call);
      for (const message of messages) call.write(message);
      call.end();
    });
  } finally {
    client.close();
  }
}
