import type { TokenService } from '../domain/authorization.js';
import { authorize } from './authorize.js';
import { booleanParameter, listOptions, registerOptions, registerOptionsOfJson, scaleOptions } from './management-parameters.js';
import { managementDocument } from '../protocol/torchserve/openapi-management.js';
import { queryPairs } from '../protocol/torchserve/path.js';
import type { ServerConfig } from '../config/server-config.js';
import type { ManagementService, OperationStatus } from '../serving/management-service.js';
import type { WorkflowService } from '../serving/workflows/workflow-service.js';
import type { LogLevels } from '../domain/log-levels.js';
import type { Exchange, ListenerLog } from './exchange.js';
import type { Handler } from './handler-chain.js';
import { modelApiOff } from './model-api.js';
import { logging } from './logging.js';
import { modelReady } from './inference-listener.js';
import { receive } from './predict.js';
import { manageWorkflows } from './workflow-routes.js';

export interface ManagementRooms {
  readonly config: ServerConfig;
  readonly management: ManagementService;
  readonly workflows: WorkflowService;
  readonly logLevels?: LogLevels;
  readonly log?: ListenerLog;
}

export function managementHandler(rooms: ManagementRooms): Handler {
  return (exchange, segments) => {
    const { tokens } = exchange.settings;
    if (segments[0] === 'token' && segments.length === 1 && tokens !== undefined) return refreshToken(exchange, tokens);
    const answer = operation(exchange, segments, rooms);
    if (answer === undefined) return undefined;
    authorize(exchange, 'management');
    return answer();
  };
}

/** What a path asks for; undefined when it is not of this API. */
function operation(exchange: Exchange, segments: readonly string[], rooms: ManagementRooms): (() => Promise<void>) | undefined {
  const [first, second = '', third = '', fourth] = segments;
  if (first === 'models') {
    if (second === '' && segments.length <= 2) return () => collection(exchange, rooms);
    if (second === '' || segments.length > 4) return undefined;
    if (segments.length === 4) {
      return fourth === 'set-default' ? () => setDefault(exchange, second, third, rooms.management) : undefined;
    }
    return () => model(exchange, second, third === '' ? undefined : third, rooms);
  }
  const { logLevels } = rooms;
  if (first === 'logging' && segments.length === 1 && logLevels) return () => logging(exchange, logLevels, rooms.log);
  if (first === 'workflows' && segments.length <= 2)
    return () => manageWorkflows(exchange, second, rooms.workflows, rooms.config.enableModelApi);
  if (first === 'v1' && second === 'models' && third !== '' && segments.length === 3) {
    return () => modelReady(exchange, third.replace(/:.*$/s, ''), undefined, rooms.management);
  }
  return undefined;
}

/** Asks for the API key itself. */
async function refreshToken(exchange: Exchange, tokens: TokenService): Promise<void> {
  const type = queryPairs(exchange.search).find(([name]) => name === 'type')?.[1];
  tokens.refresh(exchange.request.headers.authorization, type);
  exchange.send(200, 'application/json', '\n');
}

async function collection(exchange: Exchange, { config, management }: ManagementRooms): Promise<void> {
  switch (exchange.method) {
    case 'GET':
    case 'HEAD': {
      const { limit, pageToken } = listOptions(queryPairs(exchange.search));
      exchange.json(200, management.list(limit, pageToken));
      return;
    }
    case 'POST': {
      refuseWithoutModelApi(config);
      const body = await receive(exchange);
      const json = /^application\/json\s*(;|$)/i.test(exchange.request.headers['content-type'] ?? '') && body.length > 0;
      const options = json ? registerOptionsOfJson(body, config) : registerOptions(queryPairs(exchange.search), config);
      done(exchange, await management.register(options));
      return;
    }
    default:
      exchange.methodNotAllowed('GET, POST');
  }
}

async function model(exchange: Exchange, name: string, version: string | undefined, rooms: ManagementRooms): Promise<void> {
  const { config, management } = rooms;
  const query = queryPairs(exchange.search);
  switch (exchange.method) {
    case 'GET':
    case 'HEAD':
      exchange.json(200, await management.describe(name, version, booleanParameter(query, 'customized', false)));
      return;
    case 'PUT':
      done(exchange, await management.scale(name, version, scaleOptions(query, config)));
      return;
    case 'DELETE':
      refuseWithoutModelApi(config);
      done(exchange, await management.unregister(name, version));
      return;
    case 'OPTIONS':
      await management.describe(name, version, false);
      exchange.json(200, managementDocument(name));
      return;
    default:
      exchange.methodNotAllowed('GET, PUT, DELETE, OPTIONS');
  }
}

async function setDefault(exchange: Exchange, name: string, version: string, management: ManagementService): Promise<void> {
  if (exchange.method !== 'PUT') exchange.methodNotAllowed('PUT');
  done(exchange, await management.setDefault(name, version));
}

function done(exchange: Exchange, operation: OperationStatus): void {
  exchange.json(operation.state === 'done' ? 200 : 202, { status: operation.status });
}

export function refuseWithoutModelApi(config: ServerConfig): void {
  if (!config.enableModelApi) throw modelApiOff();
}
