import type { Scope } from '../domain/authorization.js';
import type { LoadFailurePolicy } from '../domain/load-failure.js';
import type { LogLevel } from '../domain/log-levels.js';
import type { Envelope } from '../domain/envelope.js';
import type { SequenceKeys } from '../domain/sequence-keys.js';

/** Where a listener binds. */
export interface ListenAddress {
  readonly protocol: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  /** Set instead of host and port for `unix:/path`. */
  readonly path?: string;
  /** As configured, for messages. */
  readonly text: string;
}

/** Where a gRPC listener binds and how long it keeps a connection. */
export interface GrpcListen {
  readonly host: string;
  readonly port: number;
  /** Set instead of host and port for `unix:/path`. */
  readonly path?: string;
  /** Milliseconds; undefined: for ever. */
  readonly maxConnectionAge: number | undefined;
  /** Milliseconds that calls get to finish when a connection has reached its age; undefined: no limit. */
  readonly maxConnectionAgeGrace: number | undefined;
}

/** `models` JSON of config.properties, per name and version. Integers are 1 or more, workers of a snapshot 0 or more. */
export interface StartupModelSettings {
  readonly defaultVersion?: boolean;
  readonly marName?: string;
  readonly minWorkers?: number;
  readonly maxWorkers?: number;
  readonly batchSize?: number;
  readonly maxBatchDelay?: number;
  readonly responseTimeout?: number;
  readonly startupTimeout?: number;
  readonly runtimeType?: string;
  /** Of a snapshot: `maxBatchDelay` is only what describe shows. */
  readonly adaptive?: boolean;
  /** Of a snapshot: the handler that was given at registration. */
  readonly handler?: string;
}

/** The effective configuration of a server. Keys are TorchServe's, in camel case. */
export interface ServerConfig {
  readonly inferenceAddress: ListenAddress;
  readonly managementAddress: ListenAddress;
  readonly metricsAddress: ListenAddress;
  readonly grpcInference: GrpcListen;
  readonly grpcManagement: GrpcListen;
  readonly enableGrpcSsl: boolean;
  readonly tls: TlsConfig;
  readonly modelStore: string | undefined;
  readonly workflowStore: string | undefined;
  /** What to load at start-up: `all`, or entries of `[name=]archive`. */
  readonly loadModels: 'all' | ReadonlyArray<{ readonly name: string | undefined; readonly url: string }>;
  readonly models: Readonly<Record<string, Readonly<Record<string, StartupModelSettings>>>>;
  /** True when `models` came from a snapshot: its settings then also beat those of `model-config.yaml`. */
  readonly modelsFromSnapshot?: boolean;
  /** 0: as many as CPUs (or GPUs) for start-up models. */
  readonly defaultWorkersPerModel: number;
  readonly jobQueueSize: number;
  /** Seconds. */
  readonly defaultResponseTimeout: number;
  /** Seconds. */
  readonly defaultStartupTimeout: number;
  /** Seconds. */
  readonly unregisterModelTimeout: number;
  readonly numberOfGpu: number | undefined;
  /** Bytes. */
  readonly maxRequestSize: number;
  /** Bytes. */
  readonly maxResponseSize: number;
  /** Bytes that an archive may unpack to, and the most that one byte of it may become. */
  readonly maxArchiveSize: number;
  readonly maxArchiveRatio: number;
  /** Workers that one scale or registration may ask for. */
  readonly maxWorkersLimit: number;
  readonly limitMaxImagePixels: boolean;
  readonly defaultServiceHandler: string | undefined;
  readonly serviceEnvelope: Envelope | undefined;
  readonly allowedUrls: readonly string[];
  readonly enableMetricsApi: boolean;
  readonly metricsMode: 'log' | 'prometheus' | 'legacy';
  readonly metricsConfig: string | undefined;
  readonly modelMetricsAutoDetect: boolean;
  /** Metrics, and series of all of them, that the handlers of one model may make. */
  readonly maxHandlerMetrics: number;
  readonly maxHandlerMetricSeries: number;
  readonly disableSystemMetrics: boolean;
  readonly systemMetricsCmd: string | undefined;
  /** Seconds. */
  readonly metricTimeInterval: number;
  readonly corsAllowedOrigin: string | undefined;
  readonly corsAllowedMethods: string | undefined;
  readonly corsAllowedHeaders: string | undefined;
  /** Lower-case names of the headers, gRPC metadata or inputs that place a request in a sequence. */
  readonly sequenceKeys: SequenceKeys;
  readonly initialWorkerPort: number;
  readonly tokens: TokenConfig;
  /** Archives may be fetched from loopback and private addresses. */
  readonly allowPrivateUrls: boolean;
  readonly enableModelApi: boolean;
  readonly logLocation: string;
  readonly metricsLocation: string;
  readonly logLevel: LogLevel;
  readonly accessLogLevel: LogLevel;
  readonly modelLogLevel: LogLevel;
  /** Probes that succeed are logged as other requests. */
  readonly accessLogProbes: boolean;
  readonly logFormat: 'torchserve' | 'json';
  /** Console output besides the files. */
  readonly logToStdout: boolean;
  /** Bytes after which a log file is begun anew, and how many old ones are kept. */
  readonly logMaxSize: number;
  readonly logMaxFiles: number;
  readonly tempDirectory: string;
  /** Seconds an idle keep-alive connection stays open. */
  readonly keepAliveTimeout: number;
  readonly onLoadFailure: LoadFailurePolicy;
  /** The inference listeners open when the server is ready for the first time. */
  readonly listenAfterLoading: boolean;
  /** Seconds; how long readiness is false before a stopping server refuses. */
  readonly shutdownGrace: number;
  /** Seconds after which a stopping server gives up waiting. */
  readonly shutdownTimeout: number;
  readonly blacklistEnvVars: string | undefined;
  readonly snapshotMaxFiles: number;
  /** Bytes that the bodies of all HTTP requests may take together. */
  readonly maxBodyMemory: number;
  readonly queueFullStatus: 429 | 503;
  /** Seconds that a client may take nothing of its answer; 0: for ever. */
  readonly clientWriteTimeout: number;
}

/** What TLS listeners prove themselves with: two PEM files, or a key store. */
export interface TlsConfig {
  readonly privateKeyFile: string | undefined;
  readonly certificateFile: string | undefined;
  readonly keystore: string | undefined;
  readonly keystorePass: string;
  readonly keystoreType: 'PKCS12' | 'JKS';
}

/** A token by value or in a file; `from` is the variable that says so. */
export type GivenToken = { readonly from: string; readonly value: string } | { readonly from: string; readonly file: string };

/** Who needs a token, and which. */
export interface TokenConfig {
  readonly required: ReadonlySet<Scope>;
  /** Tokens that the operator chose; `API` makes new ones. */
  readonly given: Readonly<Partial<Record<Scope | 'API', GivenToken>>>;
  /** Where the others are written. */
  readonly keyFile: string;
  /** Nobody chose that place, so another will do. */
  readonly keyFileMayMove: boolean;
  readonly tempDirectory: string;
  readonly lifetimeMinutes: number;
}

/** Where a value came from. */
export interface Origin {
  readonly source: 'default' | 'file' | 'environment' | 'command line';
  /** `config.properties:12`, `TS_JOB_QUEUE_SIZE`, `--model-store`. */
  readonly where: string | undefined;
}

export interface ConfigProblem {
  /** `error`: the server must not start. `info`: harmless, worth knowing. */
  readonly severity: 'error' | 'warning' | 'info';
  readonly key: string;
  readonly where: string | undefined;
  readonly message: string;
}

export interface LoadedConfig {
  readonly config: ServerConfig;
  /** Origin of each value by configuration key (`job_queue_size`). */
  readonly origins: ReadonlyMap<string, Origin>;
  readonly problems: readonly ConfigProblem[];
  /** The text of every key that was set or has a default, for display; may hold secrets. */
  readonly texts?: ReadonlyMap<string, string>;
  /** What a snapshot keeps: the keys that somebody set, without secrets, variables as they were named. */
  readonly snapshotValues?: ReadonlyMap<string, string>;
}
