/** Which tests cover a recorded scenario: files with a part of the title in each, or the part of the server that it waits for. */
export type Coverage = ReadonlyArray<readonly [file: string, title: string]> | { readonly notYet: string };

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
const commandLine: Coverage = { notYet: 'the command line in full' };
const snapshots: Coverage = { notYet: 'snapshots' };
const sequences: Coverage = { notYet: 'sequence batching' };
const continuous: Coverage = { notYet: 'continuous batching' };
const tls: Coverage = { notYet: 'TLS on the REST listeners' };

export const scenarios: Readonly<Record<string, Coverage>> = {
  'reg-tgz-real': in_('packages/runtime/src/registry/archiver-round-trip.test.ts', 'what the archiver writes as %s opens'),
  'reg-no-archive': in_('packages/runtime/src/registry/archiver-round-trip.test.ts', 'what the archiver writes as %s opens'),
  'key-file': { notYet: 'token authorization' },
  'start-BADADDR': settingRefused,
  'start-BADINT': settingRefused,
  'start-BADREGEX': settingRefused,
  'start-BADMODE': settingRefused,
  'start-NOMODEL': in_(
    'test/integration/lifecycle.test.ts',
    'an unknown one is named, the others are served, and the server is not ready',
  ),
  'tls-self-signed': tls,
  'tls-keyfile-tls12': tls,
  'tls-keyfile-tls13': tls,

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

  'torchserve --version': commandLine,
  'torchserve --start': in_(
    configuration,
    'neither in the file nor on the command line: the start ends with the name of the setting',
  ),
  'torchserve --start --model-store /nope': in_(configuration, '%s: the start ends with the reason'),
  'torchserve --start --ts-config /nope': commandLine,
  'torchserve --start --model-store <root>/store --log-config /nope': commandLine,
  'torchserve --foo': commandLine,
  'start-while-running': commandLine,
  'cli-stop': commandLine,
  'cli-stop-not-running': commandLine,

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

  'seq-basic': sequences,
  'seq-inspect': sequences,
  'seq-too-many': sequences,
  'seq-queue-overflow': sequences,
  'seq-after-end': sequences,
  'cont-single': continuous,
  'cont-three': continuous,
  'cont-after': continuous,

  'kill9-worker-2-workers': in_('test/integration/workers.test.ts', 'SIGKILL: the caller gets 5xx, the others are served'),
  'kill9-worker-1-workers': in_(
    'test/integration/workers.test.ts',
    'runs again, on a replacement, what a killed worker was running',
  ),
  'repeated-kill-restart-times': in_(workers, 'again and again is replaced each time, and health holds'),
  'server-log-lines-on-worker-death': in_(workers, 'is told by the log, with model, worker and signal'),
  'worker-identity-after-restart': dies,

  'files-after-start': snapshots,
  'files-after-changes': snapshots,
  'files-after-stop': snapshots,
  'files-at-end': snapshots,
  'restart-without-config-uses-last-snapshot': snapshots,
  'restart-with-ts-config-ignores-snapshot': snapshots,
  'restart-with-snapshot-file-as-ts-config': snapshots,

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
