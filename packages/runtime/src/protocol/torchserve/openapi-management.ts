import {
  answer,
  failure,
  int,
  internalError,
  modelName,
  modelVersion,
  noModel,
  object,
  type Operation,
  type Parameter,
  type Paths,
  query,
  type Schema,
  status,
  str,
} from './openapi-pieces.js';

const worker = object(
  {
    id: str('Id of the worker.'),
    startTime: str('When the worker was started.'),
    gpu: { type: 'boolean', description: 'True when the worker runs on a GPU.' },
    status: { type: 'string', description: 'State of the worker.', enum: ['READY', 'LOADING', 'UNLOADING'] },
  },
  ['gpu'],
);

const description: Schema = object(
  {
    modelName: str('Name of the model.'),
    modelVersion: str('Version of the model.'),
    modelUrl: str('The archive it was registered from.'),
    minWorkers: int('Workers that are always kept.'),
    maxWorkers: int('Workers at most.'),
    batchSize: int('Requests in one batch at most.'),
    maxBatchDelay: int('Milliseconds that a batch waits for more requests.'),
    status: str('State of the model.'),
    workers: { type: 'array', items: worker, description: 'The workers of the model.' },
    metrics: object({
      rejectedRequests: int('Requests refused since registration.'),
      waitingQueueSize: int('Requests that wait.'),
      requests: int('Requests since registration.'),
    }),
    jobQueueStatus: object({
      remainingCapacity: int('Requests that the queue still takes.'),
      pendingRequests: int('Requests in the queue.'),
    }),
  },
  ['batchSize', 'maxBatchDelay'],
);

const list = object(
  {
    nextPageToken: str('Give it as next_page_token to get the following models.'),
    models: {
      type: 'array',
      items: object({ modelName: str('Name of the model.'), modelUrl: str('The archive it was registered from.') }),
      description: 'The models, sorted by name.',
    },
  },
  ['nextPageToken'],
);

const listModels: Operation = {
  description: 'Lists the registered models.',
  operationId: 'listModels',
  parameters: [
    query('limit', 'integer', 'Models in the answer at most; 100 is the most.', '100'),
    query('next_page_token', 'string', 'nextPageToken of the answer before.'),
  ],
  responses: { 200: answer('The models.', list), 500: internalError },
};

const registerModel: Operation = {
  description: 'Registers a model.',
  operationId: 'registerModel',
  parameters: [
    { ...query('url', 'string', 'The archive: a file of the model store, or a URL that allowed_urls permits.'), required: true },
    query('model_name', 'string', 'Name of the model; beats the one of the archive.'),
    query('handler', 'string', 'Handler; beats the one of the archive.'),
    {
      ...query('runtime', 'string', 'Runtime of the handler; beats the one of the archive.'),
      schema: { type: 'string', enum: ['PYTHON', 'PYTHON3', 'LSP'] },
    },
    query('batch_size', 'integer', 'Requests in one batch at most.', '1'),
    query('max_batch_delay', 'integer', 'Milliseconds that a batch waits for more requests.', '100'),
    query('response_timeout', 'integer', 'Seconds that a run may take; default_response_timeout when not given.', '2'),
    query('startup_timeout', 'integer', 'Seconds that loading may take.', '120'),
    query('initial_workers', 'integer', 'Workers to start with.', '0'),
    query('synchronous', 'boolean', 'Whether to wait for the workers; when not given, it does.', 'false'),
    query('s3_sse_kms', 'boolean', 'Read and ignored.', 'false'),
  ],
  responses: {
    200: status('The model is registered and its workers are ready.'),
    202: status('The model is registered and its workers are starting.'),
    210: status('Some workers could not be started.'),
    400: failure('A parameter or the archive is wrong.'),
    404: failure('There is no such archive, or allowed_urls does not permit it.'),
    409: failure('The model is registered in this version already.'),
    500: internalError,
  },
};

const timeout = query('timeout', 'integer', 'Read and ignored.', '-1');

/** The three operations of one model, or of one version of it. */
function operations(prefix: string, path: readonly Parameter[]): Record<string, Operation> {
  return {
    get: {
      description: 'Describes the model.',
      operationId: `${prefix}describeModel`,
      parameters: path,
      responses: { 200: answer('The model.', description), 404: noModel, 500: internalError },
    },
    put: {
      description: 'Sets how many workers the model has.',
      operationId: `${prefix}setAutoScale`,
      parameters: [
        ...path,
        query('min_worker', 'integer', 'Workers that are always kept.', '1'),
        query('max_worker', 'integer', 'Workers at most; as many as min_worker when not given.', '1'),
        query('number_gpu', 'integer', 'Read and ignored.', '0'),
        query('synchronous', 'boolean', 'Whether to wait for the workers.', 'false'),
        timeout,
      ],
      responses: {
        200: status('The workers are ready.'),
        202: status('The workers are starting or stopping.'),
        210: status('Some workers could not be started.'),
        400: failure('A parameter is wrong.'),
        404: noModel,
        500: internalError,
      },
    },
    delete: {
      description: 'Unregisters the model.',
      operationId: `${prefix}unregisterModel`,
      parameters: [...path, query('synchronous', 'boolean', 'Read and ignored.', 'false'), timeout],
      responses: {
        200: status('The model is gone.'),
        202: status('The model is going.'),
        404: noModel,
        408: failure('A worker did not stop in time.'),
        500: internalError,
      },
    },
  };
}

export const modelPaths: Paths = {
  '/models/{model_name}': operations('', [modelName]),
  '/models/{model_name}/{model_version}': operations('version_', [modelName, modelVersion]),
  '/models/{model_name}/{model_version}/set-default': {
    put: {
      description: 'Makes a version the default one.',
      operationId: 'setDefault',
      parameters: [modelName, modelVersion],
      responses: { 200: status('The version is the default one.'), 404: noModel, 500: internalError },
    },
  },
};

const tokenPaths: Paths = {
  '/token': {
    get: {
      description: 'Makes a new token in the place of one that the server made; wants the API key.',
      operationId: 'refreshToken',
      parameters: [{ ...query('type', 'string', 'Which token: inference or management.'), required: true }],
      responses: {
        200: { description: 'The new token is in the key file.' },
        400: failure('The API key is missing or wrong, or the type is.'),
        404: failure('The server made no tokens.'),
      },
    },
  },
};

const level = (name: string, what: string) => query(name, 'string', `${what}: debug, info, warn, error or silent.`);

const logging = object({
  server: str("Level of the server's own log."),
  access: str('Level of the access log.'),
  model: str('Level of what workers and handlers say.'),
  access_probes: { type: 'boolean', description: 'Whether probes that succeed are logged as other requests.' },
});

const loggingPaths: Paths = {
  '/logging': {
    get: {
      description: 'Tells the log levels.',
      operationId: 'getLogging',
      parameters: [],
      responses: { 200: answer('The log levels.', logging) },
    },
    put: {
      description: 'Changes log levels until the server ends.',
      operationId: 'setLogging',
      parameters: [
        level('level', 'Level of all logs that are not named'),
        level('server', "Level of the server's own log"),
        level('access', 'Level of the access log'),
        level('model', 'Level of what workers and handlers say'),
        query('access_probes', 'boolean', 'Log probes that succeed as other requests.'),
      ],
      responses: { 200: answer('The log levels now.', logging), 400: failure('A parameter is unknown or no level.') },
    },
  },
};

export const managementPaths: Paths = {
  '/models': { get: listModels, post: registerModel },
  ...modelPaths,
  ...loggingPaths,
  ...tokenPaths,
};

/** `OPTIONS /models/{model}` */
export function managementDocument(model: string): object {
  return { openapi: '3.0.1', info: { title: `RESTful Management API for: ${model}`, version: '0.12.0' }, paths: modelPaths };
}
