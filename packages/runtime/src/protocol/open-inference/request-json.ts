import { ServeError } from '../../domain/errors.js';
import { contentsFields, type InferParameters, type InferTensor, type ModelInferRequest } from './grpc-messages.js';

/**
 * The JSON body that REST would carry for the same request. 64-bit integers stay exact: they are written, never converted.
 * @throws {ServeError} BAD_REQUEST naming the input that has no form in JSON, NOT_IMPLEMENTED for raw contents
 */
export function requestJson(request: ModelInferRequest): Buffer {
  if (request.raw_input_contents.length > 0) {
    throw new ServeError(
      'NOT_IMPLEMENTED',
      'raw_input_contents is not supported by this service; send typed contents with each input.',
    );
  }
  const members = [
    ...(request.id === '' ? [] : [`"id":${JSON.stringify(request.id)}`]),
    ...parametersMember(request.parameters),
    `"inputs":[${request.inputs.map(inputJson).join(',')}]`,
  ];
  if (request.outputs.length > 0) {
    const outputs = request.outputs.map(({ name, parameters }) =>
      [`{"name":${JSON.stringify(name)}`, ...parametersMember(parameters)].join(','),
    );
    members.push(`"outputs":[${outputs.map((output) => `${output}}`).join(',')}]`);
  }
  return Buffer.from(`{${members.join(',')}}`);
}

function inputJson(input: InferTensor): string {
  const head = [
    `"name":${JSON.stringify(input.name)}`,
    `"shape":[${input.shape.join(',')}]`,
    `"datatype":${JSON.stringify(input.datatype)}`,
    ...parametersMember(input.parameters ?? {}),
  ];
  return `{${head.join(',')},"data":[${elements(input)}]}`;
}

function elements({ name, datatype, contents }: InferTensor): string {
  const field = contentsFields[datatype];
  const shown = JSON.stringify(name.slice(0, 200));
  if (field === undefined) {
    const known = Object.keys(contentsFields).join(', ');
    throw new ServeError(
      'BAD_REQUEST',
      `Input ${shown} has the datatype ${JSON.stringify(datatype.slice(0, 40))}; those with typed contents are ${known}.`,
    );
  }
  const values = contents?.[field] ?? [];
  if (values.length === 0) {
    const other = Object.entries(contents ?? {}).find(([, given]) => Array.isArray(given) && given.length > 0);
    if (other !== undefined) {
      throw new ServeError(
        'BAD_REQUEST',
        `Input ${shown} has the datatype ${datatype}, whose elements stand in ${field}, not in ${other[0]}.`,
      );
    }
  }
  switch (field) {
    case 'bytes_contents':
      return (values as readonly Buffer[]).map((value, index) => JSON.stringify(utf8(value, shown, index))).join(',');
    case 'fp32_contents':
    case 'fp64_contents': {
      const at = (values as readonly number[]).findIndex((value) => !Number.isFinite(value));
      if (at < 0) return values.join(',');
      throw new ServeError('BAD_REQUEST', `Element ${at} of input ${shown} is ${String(values[at])}, which has no form in JSON.`);
    }
    case 'bool_contents':
    case 'int_contents':
    case 'int64_contents':
    case 'uint_contents':
    case 'uint64_contents':
      return values.join(',');
  }
}

const strict = new TextDecoder('utf-8', { fatal: true });

function utf8(bytes: Buffer, input: string, index: number): string {
  try {
    return strict.decode(bytes);
  } catch {
    throw new ServeError('BAD_REQUEST', `Element ${index} of input ${input} is not UTF-8, so it has no form in JSON.`);
  }
}

function parametersMember(parameters: InferParameters): string[] {
  const entries = Object.entries(parameters);
  if (entries.length === 0) return [];
  const members = entries.map(([name, { bool_param, int64_param, string_param }]) => {
    const value = int64_param ?? JSON.stringify(bool_param ?? string_param ?? null);
    return `${JSON.stringify(name)}:${value}`;
  });
  return [`"parameters":{${members.join(',')}}`];
}
