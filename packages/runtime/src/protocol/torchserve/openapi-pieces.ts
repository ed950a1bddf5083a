// The vocabulary of the API documents. Names, types and defaults are those that TorchServe's documents give.

export interface Schema {
  readonly type: string;
  readonly description?: string;
  readonly format?: string;
  readonly default?: string;
  readonly enum?: readonly string[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

export interface Parameter {
  readonly in: 'path' | 'query';
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  readonly schema: Schema;
}

export interface Operation {
  readonly description: string;
  readonly operationId: string;
  readonly deprecated?: boolean;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: object;
  readonly responses: Readonly<Record<string, object>>;
}

/** Operations by method, by path. */
export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

export const str = (description: string): Schema => ({ type: 'string', description });
export const int = (description: string): Schema => ({ type: 'integer', description });

export function object(properties: Readonly<Record<string, Schema>>, optional: readonly string[] = []): Schema {
  return { type: 'object', required: Object.keys(properties).filter((key) => !optional.includes(key)), properties };
}

export function query(name: string, type: string, description: string, fallback?: string): Parameter {
  return {
    in: 'query',
    name,
    description,
    required: false,
    schema: fallback === undefined ? { type } : { type, default: fallback },
  };
}

export function inPath(name: string, description: string): Parameter {
  return { in: 'path', name, description, required: true, schema: { type: 'string' } };
}

export function answer(description: string, schema: Schema, contentType = 'application/json'): object {
  return { description, content: { [contentType]: { schema } } };
}

const errorSchema = object(
  {
    code: int('The HTTP status.'),
    type: str('The kind of error, by the name TorchServe gives it.'),
    message: str('What went wrong, for people.'),
    reason: str('The cause, for programs.'),
    requestId: str('The id of the request in the logs.'),
  },
  ['reason', 'requestId'],
);

export const failure = (description: string): object => answer(description, errorSchema);
export const status = (description: string): object => answer(description, object({ status: str('What was done.') }));

export const internalError = failure('The server failed.');
export const noModel = failure('There is no such model or version.');
export const modelName = inPath('model_name', 'Name of the model.');
export const modelVersion = inPath('model_version', 'Version of the model.');

const bytes: Schema = { type: 'string', format: 'binary' };
export const anyBody = {
  description: 'The input, in whatever form the handler reads.',
  content: { '*/*': { schema: bytes } },
  required: true,
};
export const anyAnswer = answer('The output of the handler.', bytes, '*/*');
