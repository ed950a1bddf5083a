import type { SequencePlace } from './sequence.js';
import type { NamedTensors } from './tensor.js';

/** The part of the Standard Schema specification (standardschema.dev) that validation needs. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<SchemaIssue> };
export interface SchemaIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** One part of a multipart body, one field of a form, or one query parameter of the legacy paths. */
export interface RequestPart {
  readonly name: string;
  readonly filename: string | undefined;
  /** As the client sent it, without parameters; for a file without one `application/octet-stream`, else undefined. */
  readonly contentType: string | undefined;
  readonly data: Uint8Array;
}

/** What a client sent, as a handler sees it. Decoding happens on first use and its errors are 400. */
export interface InferenceRequest {
  /** `x-request-id`, the client's own or one made by the server. */
  readonly id: string;
  readonly kind: 'predict' | 'explain' | 'describe';
  /** Header values by lower-case name; several values are joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
  /** Headers as they came: `[name, value, name, value, ...]`. */
  readonly rawHeaders: readonly string[];
  /** Content type without parameters, in lower case; undefined when the client sent none. */
  readonly contentType: string | undefined;
  /** What follows the model's name and version in the path, without slashes at its ends. */
  readonly urlPath: string;
  /** Query parameters in order. On TorchServe's legacy paths (`/{model}/predict`, `/invocations`) they are also the first parts. */
  readonly query: ReadonlyArray<readonly [string, string]>;
  /** `parameters` of an Open Inference request, on `/v2` or under `service_envelope=kservev2`; empty for other protocols. */
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  /** Tensors of an Open Inference request; undefined for other protocols. */
  readonly tensors: NamedTensors | undefined;
  /** Undefined when the model has no `sequenceBatching`. */
  readonly sequence: SequencePlace | undefined;
  /** Aborts when the client leaves or the deadline passes. */
  readonly signal: AbortSignal;

  /**
   * The body, decompressed. For a multipart or form request: the part named `data`, else `body`, else the first.
   * A form-encoded body that begins with `{` or `[` is JSON that `curl -d` mislabelled and comes whole.
   * @throws {PredictionError} 415 unknown encoding, 413 too large when decompressed, 400 corrupt or malformed
   */
  body(): Uint8Array;
  /** The body as text. @throws {PredictionError} 400 when it is not valid in its charset */
  text(): string;
  /** The body as JSON, whatever its type says. @throws {PredictionError} 400 naming what is wrong and where */
  json(): unknown;
  json<Output>(schema: StandardSchema<Output>): Promise<Output>;
  /** Every part of a multipart or form body in order; for any other body one part named `body`. */
  parts(): readonly RequestPart[];
  /** The last part of that name. */
  part(name: string): RequestPart | undefined;
}
