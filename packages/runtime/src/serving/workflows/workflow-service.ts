import type { PredictReply, PredictRequest } from '../../domain/request.js';
import type { OperationStatus } from '../management-service.js';

export interface WorkflowDescription {
  readonly workflowName: string;
  readonly workflowUrl: string;
  readonly minWorkers: number;
  readonly maxWorkers: number;
  readonly batchSize: number;
  /** Milliseconds. */
  readonly maxBatchDelay: number;
  /** As Java writes a map: `{pre=[m1], m1=[post]}`. */
  readonly workflowDag: string;
  readonly retryAttempts: number;
  readonly timeoutMs: number;
  /** The model that each node runs as, by node. */
  readonly nodes: Readonly<Record<string, { readonly kind: 'model' | 'function'; readonly modelName: string }>>;
}

export interface WorkflowList {
  readonly nextPageToken?: string;
  readonly workflows: ReadonlyArray<{ readonly workflowName: string; readonly workflowUrl: string }>;
}

/** A request to a workflow: what its nodes make of it, models are named by the graph. */
export type WorkflowRequest = Omit<PredictRequest, 'modelName' | 'modelVersion' | 'kind' | 'sequence'>;

export interface WorkflowService {
  /** Resolves when every node serves. @throws {ServeError} and leaves no trace */
  register(options: { readonly url: string; readonly workflowName?: string | undefined }): Promise<OperationStatus>;
  /** Finds the archive in the workflow store. @throws {ServeError} WORKFLOW_NOT_FOUND when it is not there */
  locate(url: string): Promise<void>;
  /** Lets what runs finish first. @throws {ServeError} WORKFLOW_NOT_FOUND */
  unregister(name: string): Promise<OperationStatus>;
  /** @throws {ServeError} WORKFLOW_NOT_FOUND */
  describe(name: string): WorkflowDescription;
  list(limit: number, pageToken: number): WorkflowList;
  /** @throws {ServeError} naming the node that failed */
  predict(name: string, request: WorkflowRequest): Promise<PredictReply>;
}
