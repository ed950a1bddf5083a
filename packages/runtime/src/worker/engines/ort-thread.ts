import { parentPort, workerData } from 'node:worker_threads';
import { monotonicNow } from '../../domain/request.js';
import type { OrtSession } from './ort-session.js';
import { RunQueue } from './run-queue.js';
import { pack, type ThreadReply, type ThreadRequest, unpack } from './thread-messages.js';

// The inference thread: the only place that blocks while a model loads or runs.
const sessions = new Map<number, OrtSession>();
const port = parentPort!;
const runQueue = new RunQueue();

// A front that is gone closes the frames' descriptor, which the main thread notices unless a handler blocks it. This thread notices
// the new parent even then, and nobody is left who could want an answer.
const PARENT_CHECK_MS = 1000;
const parent: unknown = workerData;
setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL');
}, PARENT_CHECK_MS);

async function answer(request: ThreadRequest): Promise<void> {
  try {
    switch (request.type) {
      case 'open': {
        // Loaded here, since a handler without a model never needs the engine.
        const { OrtSession } = await import('./ort-session.js');
        const session = await OrtSession.open(request.request);
        sessions.set(request.session, session);
        const { inputs, outputs, providers } = session;
        reply({ type: 'opened', call: request.call, session: { inputs, outputs, providers } });
        return;
      }
      case 'run': {
        const session = sessions.get(request.session)!;
        const feeds = unpack(request.feeds);
        const waitedBefore = runQueue.waited();
        const startedAt = monotonicNow();
        const outputs = await session.run(feeds, request.outputs);
        const endedAt = monotonicNow();
        const waited = runQueue.waited() - waitedBefore;
        const { packed, transfer } = pack(outputs);
        const memory = new Set<ArrayBuffer>();
        for (const { data } of request.feeds) if (!Array.isArray(data)) memory.add(data.buffer as ArrayBuffer);
        // An engine may hand an input's memory out as an output.
        for (const buffer of transfer) memory.delete(buffer);
        const used = [...memory];
        reply({ type: 'ran', call: request.call, outputs: packed, feeds: used, startedAt, endedAt, waited }, [
          ...transfer,
          ...used,
        ]);
        return;
      }
    }
  } catch (error) {
    const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
    reply({ type: 'failed', call: request.call, name, message });
  }
}

function reply(message: ThreadReply, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

port.on('message', (request: ThreadRequest) => void answer(request));
reply({ type: 'up' });
