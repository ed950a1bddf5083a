import type { NamedTensors, TensorSignature } from '@onnxserve/handler-kit';
import { fromOrt, keepHalfFloatsAsBits, signatureOf, toOrt } from '@onnxserve/handler-kit/internal';
import * as ort from 'onnxruntime-node';
import type { SessionRequest } from './session.js';

keepHalfFloatsAsBits(ort);

/** `onnxruntime-node` in the calling thread: `create` and `run` block it. */
export class OrtSession {
  readonly inputs: readonly TensorSignature[];
  readonly outputs: readonly TensorSignature[];
  readonly providers: readonly string[];
  readonly #session: ort.InferenceSession;

  private constructor(session: ort.InferenceSession, providers: readonly string[]) {
    this.#session = session;
    this.inputs = session.inputMetadata.map(signatureOf);
    this.outputs = session.outputMetadata.map(signatureOf);
    this.providers = providers;
  }

  static async open(request: SessionRequest): Promise<OrtSession> {
    const providers = providersOf(request);
    if (!providers.includes('cuda'))
      return new OrtSession(await ort.InferenceSession.create(request.file, options(request, ['cpu'])), ['cpu']);
    const cuda = ort.listSupportedBackends().some((backend) => backend.name === 'cuda' && backend.bundled);
    try {
      if (!cuda) throw new Error('this build of onnxruntime-node has no CUDA provider');
      const session = await ort.InferenceSession.create(request.file, options(request, ['cuda', 'cpu']));
      return new OrtSession(session, ['cuda', 'cpu']);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      if (request.onnx.requireDevice === false) {
        return new OrtSession(await ort.InferenceSession.create(request.file, options(request, ['cpu'])), ['cpu']);
      }
      throw new ProviderMissingError(
        `The GPU cannot be used: ${why}. Install the CUDA provider (ONNXRUNTIME_NODE_INSTALL=cuda12 node node_modules/onnxruntime-node/script/install) ` +
          'and its libraries, set deviceType: cpu, or allow the CPU explicitly with onnx: { requireDevice: false } in model-config.yaml.',
      );
    }
  }

  async run(feeds: NamedTensors, outputs?: readonly string[]): Promise<NamedTensors> {
    const given: Record<string, ort.Tensor> = {};
    for (const name in feeds) given[name] = toOrt(ort, feeds[name]!);
    const results = outputs === undefined ? await this.#session.run(given) : await this.#session.run(given, [...outputs]);
    const named: NamedTensors = {};
    for (const name in results) named[name] = fromOrt(results[name] as ort.Tensor);
    return named;
  }
}

/** The device that was asked for cannot be used, and nobody allowed another. */
export class ProviderMissingError extends Error {
  override readonly name = 'ProviderMissingError';
}

function providersOf(request: SessionRequest): readonly string[] {
  if (request.onnx.providers !== undefined && request.onnx.providers.length > 0) {
    return request.onnx.providers.map((name) => name.replace(/ExecutionProvider$/, '').toLowerCase());
  }
  return request.device.type === 'gpu' ? ['cuda', 'cpu'] : ['cpu'];
}

function options(request: SessionRequest, providers: readonly string[]): ort.InferenceSession.SessionOptions {
  const { onnx, device, threads } = request;
  const deviceId = device.id ?? 0;
  const session: Record<string, string> = { ...onnx.configEntries };
  return {
    executionProviders: providers.map((name) => (name === 'cuda' ? { name, deviceId } : name)),
    graphOptimizationLevel: onnx.graphOptimizationLevel ?? 'all',
    intraOpNumThreads: threads,
    interOpNumThreads: onnx.interOpNumThreads ?? 1,
    executionMode: onnx.executionMode ?? 'sequential',
    ...(onnx.enableCpuMemArena === undefined ? {} : { enableCpuMemArena: onnx.enableCpuMemArena }),
    ...(onnx.enableMemPattern === undefined ? {} : { enableMemPattern: onnx.enableMemPattern }),
    ...(onnx.enableProfiling === true ? { enableProfiling: true, profileFilePrefix: onnx.profileFilePrefix ?? 'onnxserve' } : {}),
    ...(onnx.logSeverityLevel === undefined ? {} : { logSeverityLevel: onnx.logSeverityLevel as 0 }),
    extra: nested(session),
  };
}

/** The binding takes configuration entries as a tree: `session.intra_op.x` is `{session: {intra_op: {x}}}`. */
function nested(entries: Readonly<Record<string, string>>): Record<string, unknown> {
  const tree: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(entries)) {
    const parts = key.split('.');
    let at = tree;
    for (const part of parts.slice(0, -1)) at = (at[part] ??= {}) as Record<string, unknown>;
    at[parts.at(-1)!] = value;
  }
  return tree;
}
