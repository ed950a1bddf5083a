import type { ModelConfig } from '../config/model-config.js';

/** How the worker finds the code that serves a model. */
export type HandlerSpec =
  /** JavaScript module, absolute path. `exportName` is `default` or what follows `file.js:`. */
  | { readonly kind: 'module'; readonly file: string; readonly exportName: string }
  /** A function of a workflow: one request in, one result out. */
  | { readonly kind: 'function'; readonly file: string; readonly exportName: string }
  /** A handler that comes with the kit, by name. */
  | { readonly kind: 'bundled'; readonly name: string }
  /** No handler: the model speaks tensors. */
  | { readonly kind: 'tensor' };

/** A checked, unpacked model. Everything static that can be wrong with it has been refused before this exists. */
export interface ModelArchive {
  readonly name: string;
  readonly version: string;
  /** What describe shows as `modelUrl`: the url it was registered by; undefined for a function of a workflow. */
  readonly url: string | undefined;
  readonly runtime: string;
  /** Unpacked root, absolute. */
  readonly directory: string;
  readonly handler: HandlerSpec;
  /** Main ONNX file, absolute; undefined when the archive has none. */
  readonly modelFile: string | undefined;
  /** Further ONNX files by session name, absolute. */
  readonly sessionFiles: Readonly<Record<string, string>>;
  readonly config: ModelConfig;
  /** True when the archive came with a model-config file (TorchServe's precedence depends on it). */
  readonly hasConfigFile: boolean;
  /** Things worth a line in the log and in describe: ignored requirements, unknown keys. */
  readonly warnings: readonly string[];
  /** Removes the unpacked copy and, when it was downloaded, the downloaded file. Never a file of the user's. */
  dispose(): Promise<void>;
  /** Removes only the unpacked copy; for a server that stops and will find a downloaded file in its store next time. */
  close?(): Promise<void>;
}
