import type { UntypedServiceImplementation } from '@grpc/grpc-js';
import type { ServerConfig } from '../../config/server-config.js';
import { ServeError } from '../../domain/errors.js';
import { prettyJson } from '../../protocol/torchserve/error-body.js';
import type {
  DescribeModelRequest,
  ListModelsRequest,
  ManagementResponse,
  ModelVersionRequest,
  RegisterModelRequest,
  ScaleWorkerRequest,
} from '../../protocol/torchserve/grpc-messages.js';
import type { ManagementService, OperationStatus } from '../../serving/management-service.js';
import { refuseWithoutModelApi } from '../management-listener.js';
import { registerOptions, scaleOptions } from '../management-parameters.js';
import type { OpenCalls } from './interceptor.js';
import { unary } from './methods.js';

/** org.pytorch.serve.grpc.management.ManagementAPIsService */
export function managementApi(
  calls: OpenCalls,
  config: ServerConfig,
  management: ManagementService,
): UntypedServiceImplementation {
  const method = <Request>(run: (request: Request) => Promise<string>) =>
    unary<Request, ManagementResponse>(calls, async (request) => ({ msg: await run(request) }));
  return {
    DescribeModel: method<DescribeModelRequest>(async ({ model_name, model_version, customized }) =>
      prettyJson(await management.describe(model_name, given(model_version), customized)),
    ),
    ListModels: method<ListModelsRequest>(({ limit, next_page_token }) =>
      Promise.resolve(prettyJson(management.list(limit, next_page_token))),
    ),
    RegisterModel: method<RegisterModelRequest>(async (request) => {
      refuseWithoutModelApi(config);
      return sentence(await management.register(registerOptions(parameters(request), config)));
    }),
    ScaleWorker: method<ScaleWorkerRequest>(async (request) => {
      const { model_name, model_version, min_worker, max_worker, synchronous } = request;
      const options = scaleOptions(parameters({ min_worker, max_worker, synchronous }), config);
      return sentence(await management.scale(named(model_name), given(model_version), options));
    }),
    SetDefault: method<ModelVersionRequest>(async ({ model_name, model_version }) => {
      if (model_version === '')
        throw new ServeError('BAD_REQUEST', 'model_version is missing; it names the new default version.');
      return sentence(await management.setDefault(named(model_name), model_version));
    }),
    UnregisterModel: method<ModelVersionRequest>(async ({ model_name, model_version }) => {
      refuseWithoutModelApi(config);
      return sentence(await management.unregister(named(model_name), given(model_version)));
    }),
  };
}

function given(text: string): string | undefined {
  return text === '' ? undefined : text;
}

function named(name: string): string {
  if (name === '') throw new ServeError('BAD_REQUEST', 'model_name is missing.');
  return name;
}

function sentence({ status }: OperationStatus): string {
  return status;
}

/** The parameters that REST has in its query. Zero and empty are how this protocol says that a field was not given. */
function parameters(message: object): Array<readonly [string, string]> {
  return Object.entries(message)
    .filter(([name, value]) => typeof value === 'boolean' || (value !== 0 && value !== '' && !name.startsWith('_')))
    .map(([name, value]) => [name, String(value)] as const);
}
