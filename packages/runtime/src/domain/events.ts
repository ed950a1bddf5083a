import { channel } from 'node:diagnostics_channel';
import type { ErrorCode, Reason } from './errors.js';
import type { StageTimes } from './request.js';

/** What happens in the core, published for metrics and logs. The core never imports its listeners. */
export interface RequestEnded {
  readonly model: string;
  readonly version: string;
  /** What the client asked for: a version, or undefined for the default. */
  readonly requestedVersion: string | undefined;
  readonly requestId: string;
  readonly outcome: 'ok' | ErrorCode;
  readonly reason: Reason | undefined;
  readonly status: number | undefined;
  readonly stages: StageTimes | undefined;
  readonly totalNs: number;
  readonly batchSize: number;
  readonly workerId: string | undefined;
  readonly responseBytes: number;
}
export interface BatchDispatched {
  readonly model: string;
  readonly version: string;
  readonly workerId: string;
  readonly items: number;
  readonly release: 'full' | 'delay' | 'idle' | 'prefetch' | 'join' | 'rerun';
}
export interface BatchRan {
  readonly model: string;
  readonly version: string;
  readonly workerId: string;
  /** Rows of each session run. */
  readonly rows: number;
  readonly items: number;
}
export interface WorkerChanged {
  readonly model: string;
  readonly version: string;
  readonly workerId: string;
  readonly pid: number | undefined;
  readonly state: string;
  readonly detail?: string;
  readonly exitCode?: number | null;
  readonly signal?: string | null;
  readonly loadSeconds?: number;
}
export interface ModelChanged {
  readonly model: string;
  readonly version: string;
  readonly change: 'registered' | 'ready' | 'unregistered' | 'default' | 'scaled' | 'failed';
  readonly detail?: string;
}
export interface HandlerMetric {
  readonly model: string;
  readonly version: string;
  readonly workerId: string;
  readonly requestIds: string;
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly value: number;
  readonly unit: string;
  readonly labels: Readonly<Record<string, string>>;
}
export interface WorkerLog {
  readonly model: string;
  readonly version: string;
  readonly workerId: string;
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly stream: 'stdout' | 'stderr' | 'log';
  readonly message: string;
  readonly fields?: Readonly<Record<string, unknown>>;
}
export interface HttpEnded {
  readonly listener: 'inference' | 'management' | 'metrics';
  readonly remote: string;
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly status: number;
  readonly ms: number;
  readonly requestId: string;
  readonly stages: StageTimes | undefined;
  readonly reason: Reason | undefined;
  readonly requestBytes: number;
  readonly responseBytes: number;
}
export interface GrpcEnded {
  readonly listener: 'inference' | 'management';
  readonly remote: string;
  /** `package.Service/Method`. */
  readonly method: string;
  /** Number of the gRPC status. */
  readonly code: number;
  readonly ms: number;
  readonly requestId: string;
  readonly stages: StageTimes | undefined;
  readonly reason: Reason | undefined;
  readonly requestBytes: number;
  readonly responseBytes: number;
}

function topic<T>(name: string) {
  const it = channel(`onnxserve:${name}`);
  return {
    get active(): boolean {
      return it.hasSubscribers;
    },
    publish(event: T): void {
      if (it.hasSubscribers) it.publish(event);
    },
    /** @returns a function that ends the subscription */
    subscribe(listener: (event: T) => void): () => void {
      const wrapped = (message: unknown) => listener(message as T);
      it.subscribe(wrapped);
      return () => {
        it.unsubscribe(wrapped);
      };
    },
  };
}

export const requestEnded = topic<RequestEnded>('request-ended');
export const batchDispatched = topic<BatchDispatched>('batch-dispatched');
export const batchRan = topic<BatchRan>('batch-ran');
export const workerChanged = topic<WorkerChanged>('worker-changed');
export const modelChanged = topic<ModelChanged>('model-changed');
export const handlerMetric = topic<HandlerMetric>('handler-metric');
export const workerLog = topic<WorkerLog>('worker-log');
export const httpEnded = topic<HttpEnded>('http-ended');
export const grpcEnded = topic<GrpcEnded>('grpc-ended');
