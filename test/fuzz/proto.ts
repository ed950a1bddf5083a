import { numbers, words } from './boundaries.js';
import type { Random } from './random.js';

export function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 0x80 : low);
  } while (rest > 0n);
  return Buffer.from(bytes);
}

/** A field that carries its length: text, bytes, a message. */
export function field(number: number, value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([varint(BigInt(number * 8 + 2)), varint(BigInt(bytes.length)), bytes]);
}

export function integer(number: number, value: bigint): Buffer {
  return Buffer.concat([varint(BigInt(number * 8)), varint(value)]);
}

/** Fields of any number and kind, some of them with lengths that lie. */
export function message(random: Random, depth = 3): Buffer {
  return Buffer.concat(
    random.list(5, () => {
      const number = random.chance(0.9) ? random.int(1, 12) : random.pick([0, 15, 16, 19_000, 536_870_911]);
      return random.pick([
        () => integer(number, BigInt(random.pick([0, 1, -1, 2 ** 31, -(2 ** 31), 2 ** 53]))),
        () => field(number, random.pick(words).slice(0, 2000)),
        () => field(number, random.pick(numbers)),
        () => field(number, depth > 0 ? message(random, depth - 1) : random.bytes(8)),
        () => Buffer.concat([varint(BigInt(number * 8 + 2)), varint(BigInt(random.pick([1, 100, 2 ** 31, 2 ** 40, -1])))]),
        () => Buffer.concat([varint(BigInt(number * 8 + random.pick([1, 3, 4, 5, 6, 7]))), random.bytes(random.int(0, 9))]),
        () => Buffer.alloc(random.int(1, 12), 0xff),
      ])();
    }),
  );
}

/** The five bytes before a message of gRPC, and the message. */
export function framed(bytes: Uint8Array, length = bytes.length, flag = 0): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(length >>> 0, 1);
  return Buffer.concat([head, bytes]);
}

export const methods = {
  predict: '/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions',
  stream: '/org.pytorch.serve.grpc.inference.InferenceAPIsService/StreamPredictions',
  streams: '/org.pytorch.serve.grpc.inference.InferenceAPIsService/StreamPredictions2',
  ping: '/org.pytorch.serve.grpc.inference.InferenceAPIsService/Ping',
  infer: '/org.pytorch.serve.grpc.openinference.GRPCInferenceService/ModelInfer',
  metadata: '/org.pytorch.serve.grpc.openinference.GRPCInferenceService/ModelMetadata',
  health: '/grpc.health.v1.Health/Check',
  describe: '/org.pytorch.serve.grpc.management.ManagementAPIsService/DescribeModel',
  list: '/org.pytorch.serve.grpc.management.ManagementAPIsService/ListModels',
  register: '/org.pytorch.serve.grpc.management.ManagementAPIsService/RegisterModel',
  scale: '/org.pytorch.serve.grpc.management.ManagementAPIsService/ScaleWorker',
} as const;

/** `model_name`, and an entry of the map `input`. */
export const predictMessage = Buffer.concat([field(1, 'echo'), field(3, Buffer.concat([field(1, 'body'), field(2, 'abc')]))]);

const packed = (values: readonly number[]) => Buffer.concat(values.map((value) => varint(BigInt(value))));
export function inferMessage(shape: readonly number[], raw: Uint8Array): Buffer {
  const input = Buffer.concat([field(1, 'input'), field(2, 'FP32'), field(3, packed(shape))]);
  return Buffer.concat([field(1, 'tensor'), field(5, input), field(7, raw)]);
}
