import type { UntypedServiceImplementation } from '@grpc/grpc-js';
import type { InferenceService } from '../../domain/request.js';
import { prettyJson } from '../../protocol/torchserve/error-body.js';
import type {
  PredictionResponse,
  PredictionsRequest,
  TorchServeHealthResponse,
} from '../../protocol/torchserve/grpc-messages.js';
import type { ManagementService } from '../../serving/management-service.js';
import type { OpenCalls } from './interceptor.js';
import { streaming, unary, write } from './methods.js';
import { leavable, predict, predictRequest, replyMetadata, wholeBody } from './predict.js';
import type { SequenceKeys } from '../../domain/sequence-keys.js';
import { sequenceOf } from './sequence.js';
import type { SequenceStreams } from './sequence-streams.js';

export interface InferenceApiRooms {
  readonly calls: OpenCalls;
  readonly inference: InferenceService;
  readonly management: ManagementService;
  readonly sequenceKeys: SequenceKeys;
  readonly sequenceStreams: SequenceStreams;
  /** Bytes. */
  readonly maxResponseSize: number;
}

/** org.pytorch.serve.grpc.inference.InferenceAPIsService */
export function inferenceApi(rooms: InferenceApiRooms): UntypedServiceImplementation {
  const { calls, inference, management, sequenceKeys, sequenceStreams, maxResponseSize } = rooms;
  return {
    Ping: unary<unknown, TorchServeHealthResponse>(calls, () => {
      const { healthy, problems } = management.health();
      const health = prettyJson(healthy ? { status: 'Healthy' } : { status: 'Unhealthy', problems });
      return Promise.resolve({ health });
    }),
    Predictions: unary<PredictionsRequest, PredictionResponse>(calls, async (request, call, surface) => {
      const asked = predictRequest(request, call, call, sequenceOf(request, call, sequenceKeys));
      const reply = await predict(inference, asked, call);
      const prediction = await wholeBody(reply, call, maxResponseSize);
      surface.sendMetadata(replyMetadata(reply, call));
      call.responseBytes = prediction.length;
      return { prediction };
    }),
    StreamPredictions: streaming<PredictionsRequest, PredictionResponse>(calls, async (request, call, surface) => {
      const asked = predictRequest(request, call, call, sequenceOf(request, call, sequenceKeys));
      const reply = await predict(inference, asked, call);
      const whole =
        Buffer.isBuffer(reply.body) || reply.status >= 400 ? await wholeBody(reply, call, maxResponseSize) : undefined;
      surface.sendMetadata(replyMetadata(reply, call));
      for await (const prediction of whole === undefined ? leavable(reply.body as AsyncIterable<Buffer>, call) : [whole]) {
        call.responseBytes += prediction.length;
        await write(surface, call, { prediction });
      }
    }),
    StreamPredictions2: sequenceStreams.method,
  };
}
