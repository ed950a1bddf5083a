/** google.rpc.Status and google.rpc.ErrorInfo as bytes: too small for a library, and always the same few fields. */
const domain = 'onnxserve';
const infoType = 'type.googleapis.com/google.rpc.ErrorInfo';

export interface ErrorDetail {
  readonly reason: string;
  readonly requestId: string;
}

/** `google.protobuf.Any` of an ErrorInfo, as protobuf libraries take it. */
export function errorInfo({ reason, requestId }: ErrorDetail): { readonly type_url: string; readonly value: Buffer } {
  const entry = Buffer.concat([text(1, 'request_id'), text(2, requestId)]);
  return { type_url: infoType, value: Buffer.concat([text(1, reason), text(2, domain), bytes(3, entry)]) };
}

/** A google.rpc.Status with one ErrorInfo: what `grpc-status-details-bin` holds. */
export function statusDetails(code: number, message: string, detail: ErrorDetail): Buffer {
  const { type_url, value } = errorInfo(detail);
  const any = Buffer.concat([text(1, type_url), bytes(2, value)]);
  return Buffer.concat([Buffer.from([0x08, code]), text(2, message), bytes(3, any)]);
}

function text(field: number, value: string): Buffer {
  return bytes(field, Buffer.from(value, 'utf8'));
}

/** A length-delimited field. */
function bytes(field: number, value: Buffer): Buffer {
  const head = [(field << 3) | 2];
  let length = value.length;
  while (length > 0x7f) {
    head.push((length & 0x7f) | 0x80);
    length >>>= 7;
  }
  head.push(length);
  return Buffer.concat([Buffer.from(head), value]);
}
