import {
  answer,
  anyAnswer,
  anyBody,
  failure,
  int,
  internalError,
  object,
  type Parameter,
  type Paths,
  query,
  status,
  str,
} from './openapi-pieces.js';

const workflowName: Parameter = {
  in: 'path',
  name: 'workflow_name',
  description: 'Name of the workflow.',
  required: true,
  schema: { type: 'string' },
};
const apiOff = failure('enable_model_api is not true.');
const noWorkflow = failure('There is no such workflow.');

export const workflowPrediction: Paths = {
  '/wfpredict/{workflow_name}': {
    post: {
      description: 'Runs one input through a workflow.',
      operationId: 'workflow_predictions',
      parameters: [workflowName],
      requestBody: anyBody,
      responses: { 200: anyAnswer, 404: noWorkflow, 500: internalError, 504: failure('A node took longer than its timeout-ms.') },
    },
  },
};

export const workflowPaths: Paths = {
  '/workflows': {
    get: {
      description: 'Lists the registered workflows.',
      operationId: 'listWorkflows',
      parameters: [
        query('limit', 'integer', 'Workflows in the answer at most; 100 is the most.', '100'),
        query('next_page_token', 'string', 'nextPageToken of the answer before.'),
      ],
      responses: {
        200: answer(
          'The workflows.',
          object({
            nextPageToken: str('Give it as next_page_token to get the following workflows.'),
            workflows: {
              type: 'array',
              items: object({ workflowName: str('Name.'), workflowUrl: str('The archive it was registered from.') }),
              description: 'The workflows, sorted by name.',
            },
          }),
        ),
        500: internalError,
      },
    },
    post: {
      description: 'Registers a workflow and waits until its nodes serve.',
      operationId: 'registerWorkflow',
      parameters: [
        {
          ...query('url', 'string', 'The archive: a .war of the workflow store, or a URL that allowed_urls permits.'),
          required: true,
        },
        query('workflow_name', 'string', 'Name of the workflow; beats the one of the archive.'),
      ],
      responses: {
        200: status('The workflow is registered and its nodes serve.'),
        400: failure('The archive, its spec or its graph cannot be used.'),
        404: failure('There is no such archive.'),
        405: apiOff,
        409: failure('The name is taken.'),
        500: internalError,
      },
    },
  },
  '/workflows/{workflow_name}': {
    get: {
      description: 'Describes a workflow.',
      operationId: 'describeWorkflow',
      parameters: [workflowName],
      responses: {
        200: answer('The workflow.', {
          type: 'array',
          items: object({
            workflowName: str('Name.'),
            workflowUrl: str('The archive it was registered from.'),
            minWorkers: int('Workers that each node always has.'),
            maxWorkers: int('Workers of a node at most.'),
            batchSize: int('Requests in one batch of a node at most.'),
            maxBatchDelay: int('Milliseconds that a batch waits for more requests.'),
            workflowDag: str('The graph: node to its followers.'),
          }),
        }),
        404: noWorkflow,
        500: internalError,
      },
    },
    delete: {
      description: 'Removes a workflow after the requests that run.',
      operationId: 'unregisterWorkflow',
      parameters: [workflowName],
      responses: {
        200: status('The workflow is gone.'),
        404: noWorkflow,
        405: apiOff,
        409: failure('It is being removed already.'),
        500: internalError,
      },
    },
  },
};
