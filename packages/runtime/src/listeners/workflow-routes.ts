import { ServeError } from '../domain/errors.js';
import { queryPairs } from '../protocol/torchserve/path.js';
import type { WorkflowService } from '../serving/workflows/workflow-service.js';
import { deadlineOf } from './deadline.js';
import type { Exchange } from './exchange.js';
import { modelApiOff } from './model-api.js';
import { listOptions } from './management-parameters.js';
import { receive } from './predict.js';
import { sendReply } from './send-reply.js';
import { workflowOptions, workflowOptionsOfJson } from './workflow-parameters.js';

/** `/workflows` and `/workflows/NAME` of the management API. */
export async function manageWorkflows(
  exchange: Exchange,
  name: string,
  workflows: WorkflowService,
  enableModelApi: boolean,
): Promise<void> {
  const { method } = exchange;
  if (name === '') {
    if (method === 'GET' || method === 'HEAD') {
      const { limit, pageToken } = listOptions(queryPairs(exchange.search));
      exchange.json(200, workflows.list(limit, pageToken));
      return;
    }
    if (method !== 'POST') exchange.methodNotAllowed('GET, POST');
    const body = await receive(exchange);
    const json = /^application\/json\s*(;|$)/i.test(exchange.request.headers['content-type'] ?? '') && body.length > 0;
    const options = json ? workflowOptionsOfJson(body) : workflowOptions(queryPairs(exchange.search));
    if (!enableModelApi) await refuseRegistration(options.url, workflows);
    exchange.json(200, { status: (await workflows.register(options)).status });
    return;
  }
  switch (method) {
    case 'GET':
    case 'HEAD':
      exchange.json(200, [workflows.describe(name)]);
      return;
    case 'DELETE':
      workflows.describe(name);
      if (!enableModelApi) throw modelApiOff();
      exchange.json(200, { status: (await workflows.unregister(name)).status });
      return;
    default:
      exchange.methodNotAllowed('GET, DELETE');
  }
}

/** Nodes are models with code of their own, so registering them is off with models. What is not there is told as such, as with TorchServe. */
async function refuseRegistration(url: string, workflows: WorkflowService): Promise<never> {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) await workflows.locate(url);
  throw modelApiOff();
}

/** `/wfpredict/NAME` of the inference API. */
export async function predictWorkflow(exchange: Exchange, name: string, workflows: WorkflowService): Promise<void> {
  // Known before the body is taken: nobody uploads to a workflow that is not there.
  workflows.describe(name);
  if (exchange.method === 'OPTIONS')
    throw new ServeError('METHOD_NOT_ALLOWED', 'A workflow has no description; GET /workflows/NAME on the management API has.');
  const deadline = deadlineOf(exchange);
  const body = await receive(exchange);
  const reply = await workflows.predict(name, {
    id: exchange.id,
    rawHeaders: exchange.request.rawHeaders,
    urlPath: '',
    query: queryPairs(exchange.search),
    body,
    receivedAt: exchange.receivedAt,
    deadline,
    client: exchange,
  });
  await sendReply(exchange, reply);
}
