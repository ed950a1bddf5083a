// Messages of the Open Inference Protocol over gRPC as the protobuf library gives and takes them: 64-bit integers are decimal text.

/** One of the three. */
export interface InferParameter {
  readonly bool_param?: boolean;
  readonly int64_param?: string;
  readonly string_param?: string;
}
export type InferParameters = Readonly<Record<string, InferParameter>>;

export interface InferTensorContents {
  readonly bool_contents?: readonly boolean[];
  readonly int_contents?: readonly number[];
  readonly int64_contents?: readonly string[];
  readonly uint_contents?: readonly number[];
  readonly uint64_contents?: readonly string[];
  readonly fp32_contents?: readonly number[];
  readonly fp64_contents?: readonly number[];
  readonly bytes_contents?: readonly Buffer[];
}
export type ContentsField = keyof InferTensorContents;

export interface InferTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly string[];
  readonly parameters?: InferParameters;
  readonly contents?: InferTensorContents | null;
}

export interface ModelInferRequest {
  readonly model_name: string;
  readonly model_version: string;
  readonly id: string;
  readonly parameters: InferParameters;
  readonly inputs: readonly InferTensor[];
  readonly outputs: ReadonlyArray<{ readonly name: string; readonly parameters: InferParameters }>;
  readonly raw_input_contents: readonly Buffer[];
}

export interface ModelInferResponse {
  readonly model_name: string;
  readonly model_version: string;
  readonly id: string;
  readonly parameters: InferParameters;
  readonly outputs: readonly InferTensor[];
}

export interface NamedModelRequest {
  readonly name: string;
  readonly version: string;
}

export interface TensorMetadata {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly string[];
}

export interface ModelMetadataResponse {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
}

/** Field of the contents that holds a datatype's elements. FP16 and BF16 have none: they travel raw. */
export const contentsFields: Readonly<Record<string, ContentsField>> = {
  BOOL: 'bool_contents',
  INT8: 'int_contents',
  INT16: 'int_contents',
  INT32: 'int_contents',
  INT64: 'int64_contents',
  UINT8: 'uint_contents',
  UINT16: 'uint_contents',
  UINT32: 'uint_contents',
  UINT64: 'uint64_contents',
  FP32: 'fp32_contents',
  FP64: 'fp64_contents',
  BYTES: 'bytes_contents',
};
