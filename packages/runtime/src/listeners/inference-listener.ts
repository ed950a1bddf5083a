import { ServeError, toServeError } from '../domain/errors.js';
import type { InferenceService } from '../domain/request.js';
import { type InferenceRoute, type PredictRoute, inferenceRoute } from '../protocol/torchserve/inference-route.js';
import { modelDocument } from '../protocol/torchserve/openapi.js';
import { queryPairs } from '../protocol/torchserve/path.js';
import type { ManagementService } from '../serving/management-service.js';
import { type Readiness, servesNow } from '../serving/readiness.js';
import type { WorkflowService } from '../serving/workflows/workflow-service.js';
import type { Exchange } from './exchange.js';
import type { Handler } from './handler-chain.js';
import { invocationTarget } from './invocations.js';
import { authorize } from './authorize.js';
import { predict, receive } from './predict.js';
import { predictWorkflow } from './workflow-routes.js';

export interface InferenceRooms {
  readonly inference: InferenceService;
  readonly management: ManagementService;
  readonly workflows: WorkflowService;
  readonly readiness: () => Readiness;
}

export function inferenceHandler(rooms: InferenceRooms): Handler {
  return (exchange, segments) => {
    const route = inferenceRoute(segments);
    if (route === undefined) return undefined;
    // Probes come from machines that have no token.
    if (!isProbe(route)) admit(exchange, route, rooms.inference);
    return answer(exchange, route, rooms);
  };
}

function isProbe({ kind }: InferenceRoute): boolean {
  return kind === 'ping' || kind === 'health';
}

function admit(exchange: Exchange, route: InferenceRoute, inference: InferenceService): void {
  try {
    authorize(exchange, 'inference');
  } catch (error) {
    if (route.kind === 'predict')
      inference.refused({ id: exchange.id, modelName: route.model, modelVersion: route.version }, toServeError(error));
    throw error;
  }
}

async function answer(exchange: Exchange, route: InferenceRoute, rooms: InferenceRooms): Promise<void> {
  switch (route.kind) {
    case 'predict':
      if (exchange.method === 'OPTIONS') return describeModel(exchange, route, rooms.management);
      return predict(exchange, rooms.inference, {
        model: route.model,
        version: route.version,
        kind: route.explain ? 'explain' : 'predict',
        urlPath: route.urlPath,
        query: queryPairs(exchange.search),
        queryIsInput: route.legacy,
        envelope: route.envelope,
      });
    case 'invocations': {
      if (exchange.method === 'OPTIONS') {
        const model = await invocationTarget(exchange, Buffer.alloc(0), rooms.management);
        exchange.json(200, modelDocument(model));
        return;
      }
      const body = await receive(exchange);
      const model = await invocationTarget(exchange, body, rooms.management);
      const target = {
        model,
        version: undefined,
        kind: 'predict',
        urlPath: '',
        query: queryPairs(exchange.search),
        queryIsInput: true,
      } as const;
      return predict(exchange, rooms.inference, target, body);
    }
    case 'ping':
      return ping(exchange, rooms.management);
    case 'health': {
      return health(exchange, route.probe, rooms.readiness());
    }
    case 'v1-list':
      exchange.json(200, { models: rooms.management.list(100, 0).models.map((model) => model.modelName) });
      return;
    case 'v1-model':
      return modelReady(exchange, route.model, undefined, rooms.management);
    case 'v2-model-ready':
      return modelReady(exchange, route.model, route.version, rooms.management);
    case 'workflow':
      return predictWorkflow(exchange, route.name, rooms.workflows);
    default:
      route satisfies never;
  }
}

/** The reasons stand beside the answer, so that nobody has to guess from the status alone. */
function health(exchange: Exchange, probe: 'live' | 'ready', { live, ready, phase, problems, models }: Readiness): void {
  const well = probe === 'live' ? live : ready && !exchange.settings.draining;
  if (probe === 'live') exchange.json(well ? 200 : 503, { live: well, ...(well ? {} : { problems }) });
  // Clients of the Open Inference Protocol compare the whole answer.
  else if (well && exchange.path.startsWith('/v2')) exchange.json(200, { ready: true });
  else exchange.json(well ? 200 : 503, { ready: well, phase, problems, models });
}

async function ping(exchange: Exchange, management: ManagementService): Promise<void> {
  const health = management.health();
  if (health.healthy) exchange.json(200, { status: 'Healthy' });
  else exchange.json(500, { status: 'Unhealthy', problems: health.problems });
}

async function describeModel(exchange: Exchange, route: PredictRoute, management: ManagementService): Promise<void> {
  const found = await management.describe(route.model, route.version, false);
  if (found.length === 0) throw new ServeError('MODEL_NOT_FOUND', `There is no model "${route.model.slice(0, 200)}".`);
  exchange.json(200, modelDocument(route.model));
}

/** Readiness of one model or version, KServe's V1 and the Open Inference Protocol's. */
export function modelReady(
  exchange: Exchange,
  model: string,
  version: string | undefined,
  management: ManagementService,
): Promise<void> {
  if (exchange.method !== 'GET' && exchange.method !== 'HEAD') exchange.methodNotAllowed('GET');
  const { state, reason, message } = management.readiness(model, version);
  const ready = servesNow(state);
  const why = message === undefined ? {} : { state, reason, message };
  exchange.json(ready ? 200 : 503, { name: model, ...(version === undefined ? {} : { version }), ready, ...why });
  return Promise.resolve();
}
