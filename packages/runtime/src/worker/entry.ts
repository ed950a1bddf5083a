import { Socket } from 'node:net';
import type { AnyHandler, BatchContext, StepHandler } from '@onnxserve/handler-kit';
import { limitPixels, loadBundledHandler, SequenceStates } from '@onnxserve/handler-kit/internal';
import { Connection } from '../ipc/connection.js';
import type { Frame } from '../ipc/frames.js';
import type { FromWorker, LoadSpec, ToWorker, WireError } from '../ipc/messages.js';
import { loadContext, setLogLevel } from './context.js';
import { OrtEngine } from './engines/ort-engine.js';
import type { Session } from './engines/session.js';
import { stackOf, textOf } from './errors.js';
import { loadHandler } from './handler-loader.js';
import { Pipeline } from './pipeline.js';
import { provideModules } from './provided-modules.js';
import { axisOf } from './runs.js';
import { Stepper } from './stepper.js';
import { warmUp } from './warm-up.js';

// A worker process: one model, one handler. Frames come and go on file descriptor 3; when that closes the front is gone.
const FRAMES_FD = 3;

let pipeline: Pipeline | Stepper | undefined;
let sequences: SequenceStates | undefined;
let handler: AnyHandler | undefined;
let state: unknown;
let stopping = false;

const connection = new Connection(new Socket({ fd: FRAMES_FD, readable: true, writable: true }), receive, () => process.exit(0));

function receive({ meta, blob }: Frame): void {
  const message = meta as ToWorker;
  switch (message.type) {
    case 'load':
      void load(message.spec);
      return;
    case 'log-level':
      setLogLevel(message.level);
      return;
    case 'batch':
      pipeline?.accept(message.batch, message.items, blob);
      return;
    case 'cancel':
      pipeline?.cancel(message.jobs);
      return;
    case 'recall':
      say({ type: 'recalled', jobs: pipeline?.recall(message.count) ?? [] });
      return;
    case 'taken':
      pipeline?.outbox.taken(message.job, message.bytes);
      return;
    case 'end-sequence':
      void sequences?.end(message.number, message.reason);
      return;
    case 'stop':
      void stop();
      return;
  }
}

async function load(spec: LoadSpec): Promise<void> {
  const started = performance.now();
  try {
    provideModules(spec.directory);
    limitPixels(spec.limitPixels);
    const engine = new OrtEngine();
    const open = async (file: string): Promise<Session> =>
      await engine.open({ file, onnx: spec.onnx, device: spec.device, threads: spec.threads, directory: spec.directory });
    await engine.started;
    const session = spec.modelFile === undefined ? undefined : await open(spec.modelFile);
    const sessions: Record<string, Session> = {};
    for (const [name, file] of Object.entries(spec.sessionFiles)) sessions[name] = await open(file);

    const fallback = cpuInstead(spec, [session, ...Object.values(sessions)]);
    if (fallback !== undefined) say({ type: 'log', level: 'warn', message: fallback });
    handler = await complete(await loadHandler(spec.handler), session);
    const context = loadContext(spec, session, sessions, connection, (metric) => pipeline?.outbox.metric(metric));
    state = await handler.load?.(context);
    if (session !== undefined) await warmUp(session);
    sequences = sequenceStates(spec, handler, { ...context, state });
    const shared = {
      model: spec.name,
      batchSize: spec.batchSize,
      responseTimeout: spec.responseTimeout,
      maxRequestSize: spec.maxRequestSize,
      maxResponseSize: spec.maxResponseSize,
      envelope: spec.envelope,
      context: { ...context, state },
      sequences,
      connection,
    };
    pipeline = isStepHandler(handler)
      ? new Stepper({ ...shared, handler })
      : new Pipeline({
          ...shared,
          handler,
          session,
          axis: session === undefined ? { kind: 'none', rows: 0 } : axisOf(session),
          adaptive: spec.adaptive,
        });
    say({
      type: 'loaded',
      info: {
        inputs: session?.inputs ?? [],
        outputs: session?.outputs ?? [],
        providers: session?.providers ?? [],
        wholeBatch: 'handle' in handler && handler.handle !== undefined,
        continuous: isStepHandler(handler),
        loadMs: performance.now() - started,
      },
    });
  } catch (error) {
    say({ type: 'failed', error: { ...loadError(error, spec.name), stack: stackOf(error) } });
  }
}

/** @throws when the handler counts on sequences that the model does not have */
function sequenceStates(spec: LoadSpec, given: AnyHandler, context: BatchContext<unknown>): SequenceStates | undefined {
  if (!spec.sequences && given.startSequence !== undefined)
    throw new Error('the handler has startSequence(), which needs sequenceBatching: true in model-config.yaml');
  if (!spec.sequences) return undefined;
  return new SequenceStates(given, context, (error) =>
    say({ type: 'log', level: 'error', message: stackOf(error), fields: { stage: 'endSequence' } }),
  );
}

function isStepHandler(given: AnyHandler): given is StepHandler<unknown, unknown> {
  return 'step' in given && given.step !== undefined;
}

/** A GPU was asked for, the CPU is used, and the configuration allows it. */
function cpuInstead(spec: LoadSpec, sessions: ReadonlyArray<Session | undefined>): string | undefined {
  if (spec.device.type !== 'gpu' || sessions.every((it) => it === undefined || it.providers.includes('cuda'))) return undefined;
  return `model "${spec.name}" asked for a GPU and runs on the CPU, which onnx: { requireDevice: false } allows`;
}

/** The stages that a handler leaves out speak tensors, when there is a model to feed. */
async function complete(given: AnyHandler, session: Session | undefined): Promise<AnyHandler> {
  if (('handle' in given && given.handle !== undefined) || session === undefined) return given;
  if (isStepHandler(given) || ('inference' in given && given.inference !== undefined)) return given;
  const tensor = await loadBundledHandler('tensor');
  return { ...tensor, ...Object.fromEntries(Object.entries(given).filter(([, stage]) => stage !== undefined)) } as AnyHandler;
}

function loadError(error: unknown, model: string): WireError {
  const message = textOf(error);
  const name = error instanceof Error ? error.name : '';
  if (name === 'ProviderMissingError') return { code: 'WORKER_START_FAILED', reason: 'provider-missing', message };
  if (/out of memory|bad_alloc|failed to allocate memory|BFCArena/i.test(message)) {
    return {
      code: 'OUT_OF_MEMORY',
      reason: 'device-out-of-memory',
      message: `Model "${model}" does not fit into memory: ${message}`,
    };
  }
  return { code: 'WORKER_START_FAILED', reason: 'handler-error', message: `Model "${model}" could not be loaded: ${message}` };
}

async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  try {
    await sequences?.endAll('stop');
    await handler?.unload?.(state);
  } finally {
    connection.flush();
    process.exit(0);
  }
}

function say(message: FromWorker): void {
  connection.send(message);
}

// A terminal's Ctrl-C reaches the whole process group; when to stop is the front's decision.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.on('SIGHUP', () => undefined);
// A promise that a handler forgot belongs to no request; ending the process would punish all of them. A throw outside of any
// promise still does, since nobody knows what it left half done.
process.on('unhandledRejection', (reason) => {
  say({ type: 'log', level: 'error', message: `unhandled rejection in the handler: ${stackOf(reason)}` });
});
