import { managementPaths } from './openapi-management.js';
import {
  answer,
  anyAnswer,
  anyBody,
  failure,
  internalError,
  modelName,
  modelVersion,
  noModel,
  object,
  type Operation,
  type Parameter,
  type Paths,
  query,
  str,
} from './openapi-pieces.js';
import { workflowPaths, workflowPrediction } from './openapi-workflows.js';

const document = answer(
  'This document.',
  object({ openapi: { type: 'string' }, info: { type: 'object' }, paths: { type: 'object' } }),
);

const description: Paths = {
  '/': {
    options: {
      description: 'Describes the API of this listener.',
      operationId: 'apiDescription',
      parameters: [],
      responses: { 200: document, 500: internalError },
    },
  },
};

const oldDescription: Paths = {
  '/api-description': {
    get: {
      description: 'Describes the API of this listener; OPTIONS / is the newer way.',
      operationId: 'api-description',
      deprecated: true,
      parameters: [],
      responses: { 200: document, 500: internalError },
    },
  },
};

function prediction(operationId: string, ...parameters: readonly Parameter[]): { post: Operation } {
  return {
    post: {
      description: 'Runs the model on one input.',
      operationId,
      parameters,
      requestBody: anyBody,
      responses: {
        200: anyAnswer,
        404: noModel,
        500: internalError,
        503: failure('The queue is full, or the model has no worker.'),
      },
    },
  };
}

const explanation = (operationId: string, ...parameters: readonly Parameter[]): { post: Operation } => {
  const { post } = prediction(operationId, ...parameters);
  const responses = { ...post.responses, 501: failure('The handler explains nothing.') };
  return { post: { ...post, description: 'Explains what the model makes of one input.', responses } };
};

function health(probe: 'live' | 'ready', what: string): { get: Operation } {
  const schema = object({ [probe]: { type: 'boolean' } });
  const unready: Record<string, object> = probe === 'ready' ? { 503: answer('It is not; problems says why.', schema) } : {};
  return {
    get: { description: what, operationId: probe, parameters: [], responses: { 200: answer('It is.', schema), ...unready } },
  };
}

const inference: Paths = {
  '/ping': {
    get: {
      description: 'Says whether every model is healthy.',
      operationId: 'ping',
      parameters: [],
      responses: {
        200: answer('Healthy.', object({ status: str('Healthy.') })),
        500: failure('A model is not healthy.'),
      },
    },
  },
  '/v1/models/{model_name}:predict': prediction('predictions', modelName),
  '/v2/models/{model_name}/infer': prediction('predictions', modelName),
  '/predictions/{model_name}': prediction('predictions', modelName),
  '/predictions/{model_name}/{model_version}': prediction('version_predictions', modelName, modelVersion),
  '/explanations/{model_name}': explanation('explanations', modelName),
  '/explanations/{model_name}/{model_version}': explanation('version_explanations', modelName, modelVersion),
  '/health/live': health('live', 'Says whether the server answers.'),
  '/health/ready': health('ready', 'Says whether every start-up model is served.'),
};

const metrics: Paths = {
  '/metrics': {
    get: {
      description: 'The metrics in Prometheus text form.',
      operationId: 'metrics',
      parameters: [query('name[]', 'string', 'A family to give; all when none is named.')],
      responses: {
        200: answer(
          'The metrics.',
          object({ '# HELP': str('What a family means.'), '# TYPE': str('Type of a family.'), metric: str('A sample.') }),
          'text/plain; version=0.0.4; charset=utf-8',
        ),
        500: internalError,
      },
    },
  },
};

/** `OPTIONS /` of a listener that serves the named APIs. */
export function apiDocument(names: ReadonlyArray<'inference' | 'management' | 'metrics'>): object {
  const api = names.includes('inference') || names.includes('management');
  const paths: Paths = {
    ...(api ? description : {}),
    ...(names.includes('inference') ? { ...inference, ...workflowPrediction } : {}),
    ...(names.includes('management') ? { ...managementPaths, ...workflowPaths } : {}),
    ...(api ? oldDescription : {}),
    ...metrics,
  };
  const info = { title: 'TorchServe APIs', description: `onnxserve, the ${names.join(', ')} API`, version: '0.12.0' };
  return { openapi: '3.0.1', info, paths };
}

/** `OPTIONS /predictions/{model}` */
export function modelDocument(model: string): object {
  const post: Operation = {
    description: `Runs ${model} on one input.`,
    operationId: model,
    parameters: [],
    responses: { 200: { description: 'The output of the handler.' }, 500: internalError },
  };
  const paths: Paths = {
    // TorchServe writes this path without its plural.
    [`/prediction/${model}`]: { post },
    '/v1/models/{model_name}:predict': { post },
    '/v2/models/{model_name}/infer': { post },
  };
  return { openapi: '3.0.1', info: { title: `RESTful API for: ${model}`, version: '1.0.0' }, paths };
}
