/** Field of a protobuf message whose value has a length. */
function field(number: number, value: Uint8Array | string): Buffer {
  const bytes = Buffer.from(value as Uint8Array);
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
}
function integer(number: number, value: number): Buffer {
  return Buffer.from([number << 3, value]);
}

/** `x` FP32 `[N, 16]`, or whatever `name` says. */
function tensorInfo(name: string): Buffer {
  const batch = field(1, field(2, 'N'));
  const width = field(1, integer(1, 16));
  const type = Buffer.concat([integer(1, 1), field(2, Buffer.concat([batch, width]))]);
  return Buffer.concat([field(1, name), field(2, field(1, type))]);
}

/** An ONNX model of one Identity node, FP32 `[N, 16]` in and out. */
export function noopModel(): Buffer {
  const node = Buffer.concat([field(1, 'x'), field(2, 'y'), field(4, 'Identity')]);
  const graph = Buffer.concat([field(1, node), field(2, 'noop'), field(11, tensorInfo('x')), field(12, tensorInfo('y'))]);
  const opset = Buffer.concat([field(1, ''), integer(2, 17)]);
  return Buffer.concat([integer(1, 8), field(7, graph), field(8, opset)]);
}
