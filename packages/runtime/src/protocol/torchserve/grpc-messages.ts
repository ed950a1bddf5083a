// Messages of TorchServe's gRPC services as the protobuf library gives and takes them; fields that were not sent have their defaults.

export interface PredictionsRequest {
  readonly model_name: string;
  readonly model_version: string;
  readonly input: Readonly<Record<string, Buffer>>;
  readonly sequence_id?: string;
}

export interface RpcStatus {
  readonly code: number;
  readonly message: string;
  readonly details: ReadonlyArray<{ readonly type_url: string; readonly value: Buffer }>;
}

export interface PredictionResponse {
  readonly prediction?: Buffer;
  readonly sequence_id?: string;
  readonly status?: RpcStatus;
}

export interface TorchServeHealthResponse {
  readonly health: string;
}

export interface ManagementResponse {
  readonly msg: string;
}

export interface ModelVersionRequest {
  readonly model_name: string;
  readonly model_version: string;
}

export interface DescribeModelRequest extends ModelVersionRequest {
  readonly customized: boolean;
}

export interface ListModelsRequest {
  readonly limit: number;
  readonly next_page_token: number;
}

export interface RegisterModelRequest {
  readonly batch_size: number;
  readonly handler: string;
  readonly initial_workers: number;
  readonly max_batch_delay: number;
  readonly model_name: string;
  readonly response_timeout: number;
  readonly runtime: string;
  readonly synchronous: boolean;
  readonly url: string;
  readonly s3_sse_kms: boolean;
  readonly startup_timeout: number;
}

export interface ScaleWorkerRequest extends ModelVersionRequest {
  readonly max_worker: number;
  readonly min_worker: number;
  readonly number_gpu: number;
  readonly synchronous: boolean;
  readonly timeout: number;
}
