import type { UntypedServiceImplementation } from '@grpc/grpc-js';
import { ServeError, toServeError } from '../../domain/errors.js';
import type { InferenceService } from '../../domain/request.js';
import type {
  ModelInferRequest,
  ModelInferResponse,
  ModelMetadataResponse,
  NamedModelRequest,
  TensorMetadata,
} from '../../protocol/open-inference/grpc-messages.js';
import { requestJson } from '../../protocol/open-inference/request-json.js';
import { responseMessage } from '../../protocol/open-inference/response-message.js';
import type { ManagementService, ModelDescription } from '../../serving/management-service.js';
import { type Readiness, servesNow } from '../../serving/readiness.js';
import type { OpenCalls } from './interceptor.js';
import { rawHeaders } from './metadata.js';
import { unary } from './methods.js';
import { predict, wholeBody } from './predict.js';

export interface OpenInferenceRooms {
  readonly calls: OpenCalls;
  readonly inference: InferenceService;
  readonly management: ManagementService;
  readonly readiness: () => Readiness;
  readonly version: string;
  /** Bytes. */
  readonly maxResponseSize: number;
}

/** The Open Inference Protocol under TorchServe's package name; ModelInfer is what REST's `/v2/models/{model}/infer` would do. */
export function openInferenceApi(rooms: OpenInferenceRooms): UntypedServiceImplementation {
  const { calls, inference, management, readiness, version, maxResponseSize } = rooms;
  const find = async ({ name, version: asked }: NamedModelRequest): Promise<ModelDescription> => {
    if (name === '') throw new ServeError('BAD_REQUEST', 'The request names no model; set name.');
    const [model] = await management.describe(name, asked === '' ? undefined : asked, false);
    if (model === undefined) throw new ServeError('MODEL_NOT_FOUND', `There is no model "${name.slice(0, 200)}".`);
    return model;
  };
  return {
    ServerLive: unary(calls, () => Promise.resolve({ live: readiness().live })),
    ServerReady: unary(calls, () => Promise.resolve({ ready: readiness().ready })),
    ModelReady: unary<NamedModelRequest, { ready: boolean }>(calls, async (request) => {
      await find(request);
      return { ready: servesNow(management.readiness(request.name, request.version === '' ? undefined : request.version).state) };
    }),
    ServerMetadata: unary(calls, () => Promise.resolve({ name: 'onnxserve', version, extensions: [] })),
    ModelMetadata: unary<NamedModelRequest, ModelMetadataResponse>(calls, async (request) => {
      const model = await find(request);
      const all = await management.describe(request.name, 'all', false);
      return {
        name: request.name,
        versions: all.map(({ modelVersion }) => modelVersion),
        platform: 'onnxruntime_onnx',
        inputs: tensors(model.inputs),
        outputs: tensors(model.outputs),
      };
    }),
    ModelInfer: unary<ModelInferRequest, ModelInferResponse>(calls, async (request, call) => {
      const { model_name, model_version, id } = request;
      const asked = { id: call.id, modelName: model_name, modelVersion: model_version === '' ? undefined : model_version };
      if (model_name === '') throw new ServeError('BAD_REQUEST', 'The request names no model; set model_name.');
      const body = jsonOf(request, (error) => inference.refused(asked, error));
      call.requestBytes = body.length;
      const answer = await predict(
        inference,
        {
          ...asked,
          kind: 'predict',
          rawHeaders: [...rawHeaders(call.metadata), 'content-type', 'application/json', 'content-length', String(body.length)],
          urlPath: '',
          query: [],
          body,
          envelope: 'kservev2',
          receivedAt: call.receivedAt,
          ...(call.deadline === undefined ? {} : { deadline: call.deadline }),
          client: call,
        },
        call,
      );
      const whole = await wholeBody(answer, call, maxResponseSize);
      call.responseBytes = whole.length;
      return responseMessage(whole, { model: model_name, version: answer.modelVersion, id: id === '' ? call.id : id });
    }),
  };
}

function jsonOf(request: ModelInferRequest, refused: (error: ServeError) => void): Buffer {
  try {
    return requestJson(request);
  } catch (error) {
    refused(toServeError(error));
    throw error;
  }
}

/** A symbolic dimension may be of any size. */
function tensors(signatures: unknown): TensorMetadata[] {
  const list = (signatures ?? []) as ReadonlyArray<{ name: string; datatype: string; shape: ReadonlyArray<number | string> }>;
  return list.map(({ name, datatype, shape }) => ({
    name,
    datatype,
    shape: shape.map((size) => (typeof size === 'number' ? String(size) : '-1')),
  }));
}
