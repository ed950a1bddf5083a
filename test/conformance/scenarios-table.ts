/** Which tests cover a recorded scenario: files with a part of the title in each. */
export type Coverage = ReadonlyArray<readonly [file: string, title: string]>;

const requests = 'test/integration/scenarios/requests.test.ts';
const workers = 'test/integration/scenarios/workers.test.ts';
const http = 'packages/runtime/src/listeners/http-server.test.ts';
const configuration = 'test/integration/configuration.test.ts';

const in_ = (file: string, title: string): Coverage => [[file, title]];
const settingRefused = in_(
  configuration,
  'a value that cannot be read fails the check and the start with file, line and key: %s=%s',
);
const wholeBatchFails = in_(requests, 'a handler of whole batches that fails by %s fails the batch');
const dies = in_(workers, 'queued ones wait for the replacement, which has the place and another process');
const health = in_(workers, 'is retried for its window, makes health false after it, and is filled again only by scaling');
const cli = 'test/integration/command-line.test.ts';
const flags = in_(cli, '%j ends with %i and says why');
const security = 'test/integration/security.test.ts';
const sequences = 'test/integration/sequences.test.ts';
const continuous = 'test/integration/continuous.test.ts';
const snapshots = 'test/integration/snapshots.test.ts';
const kept = in_(snapshots, 'are written at the start, after changes and at the end, and bring everything back');

export const scenarios: Readonly<Record<string, Coverage>> = {
  'reg-tgz-real': in_('packages/runtime/src/registry/archiver-round-trip.test.ts', 'what the archiver writes as %s opens'),
  'reg-no-archive': in_('packages/runtime/src/registry/archiver-round-trip.test.ts', 'what the archiver writes as %s opens'),
  'key-file': in_(security, 'are written for their owner, let in who has them, are renewed, and stand in no log'),
  'start-BADADDR': settingRefused,
  'start-BADINT': settingRefused,
  'start-BADREGEX': settingRefused,
  'start-BADMODE': settingRefused,
  'start-NOMODEL': in_(
    'test/integration/lifecycle.test.ts',
    'an unknown one is named, the others are served, and the server is not ready',
  ),
  'tls-self-signed': in_(security, 'does not start with %s'),
  'tls-keyfile-tls12': in_(security, 'speaks %s on every listener'),
  'tls-keyfile-tls13': in_(security, 'speaks %s on every listener'),

  'stream-timing': in_(requests, 'chunks are sent as they come'),
  'stream-raise-after-chunks': in_(requests, '%s after some chunks breaks the connection'),
  'stream-crash-after-chunks': in_(requests, '%s after some chunks breaks the connection'),
  'stream-then-ping-same-connection': in_(requests, 'the connection of a finished stream serves the next request'),
  'stream-and-head-request': in_(requests, 'HEAD gets no body, and the connection stays usable'),
  'stream-then-crash': in_(requests, '%s after some chunks breaks the connection'),
  '413-then-ping-same-connection': in_(http, 'is exact and its answer can be read'),
  '413-body-then-ping': in_(http, 'holds for bodies of unknown length, and the connection stays usable'),

  'keepalive-two-sequential': in_(requests, 'stay open from one request to the next, also after an error'),
  'keepalive-after-404': in_(requests, 'stay open from one request to the next, also after an error'),
  'pipelined-pings': in_(requests, 'pipelined pings are both answered'),
  'pipelined-slow-then-ping': in_(requests, 'pipelined answers keep the order of the requests'),
  'pipelined-two-predicts': in_(requests, 'pipelined answers keep the order of the requests'),
  'half-close-before-response': in_(requests, 'a client that waits without a word gets its answer'),
  'shutdown-wr-before-response': in_(requests, 'one that closes its side has left'),
  'disconnect-running': in_(requests, 'a client that leaves while its request runs harms nobody'),
  'disconnect-queued': in_(
    'test/integration/robustness.test.ts',
    'while queued: their requests are never run, and the worker stays',
  ),
  'delete-inflight': in_(requests, 'a model is removed with a running and a waiting request: both are answered'),

  'batch-four-immediate': in_(requests, 'four at once go together without waiting for the delay'),
  'batch-six': in_(requests, 'of six, four go together and two after the delay'),
  'batch-queued-while-busy': in_(requests, 'what is queued behind a run makes full batches'),
  'batch-error-raise': wholeBatchFails,
  'batch-error-wronglen': wholeBatchFails,
  'batch-error-prederr': wholeBatchFails,
  'batch-error-memerr': wholeBatchFails,
  'batch-status-headers': in_(requests, 'each of a batch gets the status that the handler set'),
  'batch-crash': in_(requests, 'a batch whose worker dies is answered, and the worker comes back'),
  'batch-stream': in_(requests, 'each of a batch gets its own stream'),

  'torchserve --version': flags,
  'torchserve --start': in_(
    configuration,
    'neither in the file nor on the command line: the start ends with the name of the setting',
  ),
  'torchserve --start --model-store /nope': in_(configuration, '%s: the start ends with the reason'),
  'torchserve --start --ts-config /nope': flags,
  'torchserve --start --model-store <root>/store --log-config /nope': flags,
  'torchserve --foo': flags,
  'start-while-running': in_(cli, 'starts in the background, refuses a second one, and stops'),
  'cli-stop': in_(cli, 'starts in the background, refuses a second one, and stops'),
  'cli-stop-not-running': flags,

  'shutdown-SIGTERM': in_('test/integration/robustness.test.ts', 'SIGTERM: accepted requests are answered'),
  'shutdown-SIGINT': in_(workers, 'SIGINT ends the server as SIGTERM does'),
  'shutdown-SIGKILL': in_('test/integration/robustness.test.ts', 'SIGKILL of the front: no worker is left'),

  'queue-full': in_(requests, 'a full queue is told at once; what was taken is answered'),
  'response-timeout': in_(requests, 'a run over responseTimeout is answered, its worker replaced, and what waits is served'),
  'response-timeout-queued': in_(
    requests,
    'a run over responseTimeout is answered, its worker replaced, and what waits is served',
  ),
  'stream-timeout-per-chunk': in_(requests, 'responseTimeout counts from chunk to chunk, not over the stream'),
  'client-timeout-drop': in_(requests, 'an expired request is answered, whether it runs or waits'),
  'client-timeout-queued': in_(requests, 'an expired request is answered, whether it runs or waits'),
  'ticket-idle': in_(requests, 'with tickets a request is taken only by an idle worker'),
  'ticket-busy': in_(requests, 'with tickets a request is taken only by an idle worker'),
  'ticket-after': in_(requests, 'with tickets a request is taken only by an idle worker'),

  'seq-basic': in_(sequences, 'keeps its state in the worker until its end mark, which frees its place at once'),
  'seq-inspect': in_(sequences, 'keeps its state in the worker until its end mark, which frees its place at once'),
  'seq-too-many': in_(sequences, 'maxNumSequence holds, with the setting in the refusal'),
  'seq-queue-overflow': in_(sequences, 'maxSequenceJobQueueSize counts those that wait'),
  'seq-after-end': in_(sequences, 'keeps its state in the worker until its end mark, which frees its place at once'),
  'cont-single': in_(continuous, 'streams a chunk for each step, with what the handler set for the answer'),
  'cont-three': in_(
    continuous,
    'a request joins the running batch between two steps, and one that is done makes room for the next',
  ),
  'cont-after': in_(continuous, 'may stream, and the next request is served by the same worker'),

  'kill9-worker-2-workers': in_('test/integration/workers.test.ts', 'SIGKILL: the caller gets 5xx, the others are served'),
  'kill9-worker-1-workers': in_(
    'test/integration/workers.test.ts',
    'runs again, on a replacement, what a killed worker was running',
  ),
  'repeated-kill-restart-times': in_(workers, 'again and again is replaced each time, and health holds'),
  'server-log-lines-on-worker-death': in_(workers, 'is told by the log, with model, worker and signal'),
  'worker-identity-after-restart': dies,

  'files-after-start': kept,
  'files-after-changes': kept,
  'files-after-stop': kept,
  'files-at-end': kept,
  'restart-without-config-uses-last-snapshot': kept,
  'restart-with-ts-config-ignores-snapshot': in_(
    snapshots,
    'yield to a named configuration, to --models, and to --ncs, which writes none',
  ),
  'restart-with-snapshot-file-as-ts-config': in_(snapshots, 'restore as --ts-config, without config.properties too'),

  'ping-unhealthy': health,
  'describe-unhealthy': health,
  'ping-other-model-still-works': health,
  'ping-timeline': health,
  'ping-after-restore': health,
  'ping-after-scale-same': health,
  'ping-after-scale-0-1': health,
  'ping-during-restart': in_(workers, 'again and again is replaced each time, and health holds'),

  'crash-crash-1': dies,
  'crash-sysexit-3': dies,
  'crash-kill9-': dies,
  'crash-crash-137': dies,
  'crash-with-queued': dies,
};
