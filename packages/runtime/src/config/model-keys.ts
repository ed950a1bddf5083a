import { loadFailurePolicies } from '../domain/load-failure.js';

/** How a value of `model-config.yaml` is read. */
export type ModelValueKind =
  | {
      readonly kind: 'integer';
      readonly min: number;
      readonly max: number;
      /** Below `min`: raise to `min`, or leave the value out. */
      readonly below: 'raise' | 'ignore';
    }
  | { readonly kind: 'boolean' }
  | { readonly kind: 'text' }
  | { readonly kind: 'choice'; readonly choices: readonly string[] }
  | { readonly kind: 'device' }
  | { readonly kind: 'devices' }
  | { readonly kind: 'section' };

export interface ModelKeySpec {
  readonly name: string;
  readonly value: ModelValueKind;
  readonly defaultDoc: string;
  readonly unit?: string;
  readonly from: 'TorchServe' | 'onnxserve';
  /** `pointless`: accepted, without effect here. */
  readonly status: 'used' | 'pointless';
  readonly doc: string;
}

const integer = (min: number, below: 'raise' | 'ignore' = 'ignore'): ModelValueKind => ({
  kind: 'integer',
  min,
  max: 2_147_483_647,
  below,
});
/** As long as a timer can hold. */
const seconds = (min: number): ModelValueKind => ({ kind: 'integer', min, max: 2_147_483, below: 'ignore' });
const boolean: ModelValueKind = { kind: 'boolean' };
const text: ModelValueKind = { kind: 'text' };
const section: ModelValueKind = { kind: 'section' };

function key(
  name: string,
  value: ModelValueKind,
  defaultDoc: string,
  doc: string,
  extras: Partial<Pick<ModelKeySpec, 'unit' | 'from' | 'status'>> = {},
): ModelKeySpec {
  return { name, value, defaultDoc, doc, from: 'TorchServe', status: 'used', ...extras };
}

/** The keys of `model-config.yaml` that the server reads; every other key belongs to the handler. */
export const modelKeys: readonly ModelKeySpec[] = [
  key('minWorkers', integer(1, 'raise'), 'not set', 'Workers that are always there. Below 1 counts as 1.'),
  key('maxWorkers', integer(1), '`minWorkers`', 'The most workers; both counts are ignored when it is less than `minWorkers`.'),
  key('batchSize', integer(1, 'raise'), '1', 'The most requests that run together. Below 1 counts as 1.'),
  key('maxBatchDelay', integer(0), 'adaptive', 'How long the first request of a batch waits for others.', { unit: 'ms' }),
  key('responseTimeout', seconds(1), '`default_response_timeout`', 'How long a worker may take to answer a batch.', {
    unit: 's',
  }),
  key('startupTimeout', seconds(1), '`default_startup_timeout`', 'How long a worker may take to load the model.', { unit: 's' }),
  key('maxRetryTimeoutInSec', seconds(0), '300', 'How long a worker that keeps failing is started again.', { unit: 's' }),
  key(
    'onLoadFailure',
    { kind: 'choice', choices: loadFailurePolicies },
    '`on_load_failure`',
    '`retry`: started again, with growing pauses, for `maxRetryTimeoutInSec`. `give-up`: not started again. `exit`: as `retry`, then the server ends with exit code 3.',
    { from: 'onnxserve' },
  ),
  key(
    'spareWorkers',
    { kind: 'integer', min: 0, max: 64, below: 'ignore' },
    '0',
    'Further workers that load the model and wait; one takes over at once when a worker dies. Each has its own copy of the weights.',
    { from: 'onnxserve' },
  ),
  key('clientTimeoutInMills', integer(0), '0', 'How long a request may wait and run. 0: no limit.', { unit: 'ms' }),
  key('jobQueueSize', integer(1), '`job_queue_size`', 'Requests that may wait. 0: the default.', { unit: 'requests' }),
  key('useJobTicket', boolean, 'false', 'Accept a request only when a worker is waiting for work.'),
  key(
    'newestFirstUnderLoad',
    boolean,
    'false',
    'When more requests wait than the workers take next, hand out the latest first; with deadlines most are then answered in time instead of none.',
    { from: 'onnxserve' },
  ),
  key('deviceType', { kind: 'device' }, 'cpu', '`cpu` or `gpu`. A GPU that cannot be used fails the load.'),
  key('deviceIds', { kind: 'devices' }, 'all', 'List of the GPUs to use.'),
  key('continuousBatching', boolean, 'false', 'Requests join and leave a running batch.'),
  key('sequenceBatching', boolean, 'false', 'Requests of one sequence go to one worker in order.'),
  key('sequenceMaxIdleMSec', integer(0), '0', 'A sequence ends after this time without requests.', { unit: 'ms' }),
  key('sequenceTimeoutMSec', integer(0), '0', 'A sequence ends after this time in total.', { unit: 'ms' }),
  key('maxNumSequence', integer(1), '1', 'Sequences at the same time.'),
  key('maxSequenceJobQueueSize', integer(1), '1', 'Requests of one sequence that may wait.', { unit: 'requests' }),
  key('handler', text, "the manifest's", "A bundled handler's name, or a file of the archive.", { from: 'onnxserve' }),
  key(
    'rerunOnWorkerDeath',
    boolean,
    'by handler',
    'Run again, alone and once, what a worker was running when it died. On unless the handler has `handle()`.',
    { from: 'onnxserve' },
  ),
  key(
    'intraOpNumThreads',
    { kind: 'integer', min: 1, max: 1024, below: 'ignore' },
    'cores divided by workers',
    'Threads of one run; the same under `onnx:` beats it, `OMP_NUM_THREADS` of the environment comes after it.',
    { from: 'onnxserve' },
  ),
  key('onnx', section, 'empty', 'Options of the ONNX session, see below.', { from: 'onnxserve' }),
  key('parallelType', text, 'not set', 'Shown by describe; ONNX models are not split over GPUs.', { status: 'pointless' }),
  key('parallelLevel', integer(0), '0', 'Shown by describe.', { status: 'pointless' }),
  key('useVenv', boolean, 'false', 'Shown by describe; there is no Python here.', { status: 'pointless' }),
  key('asyncCommunication', boolean, 'false', 'Workers always talk asynchronously here.', { status: 'pointless' }),
  key('torchrun', section, 'empty', 'There is no torchrun here.', { status: 'pointless' }),
];
