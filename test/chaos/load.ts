import { performance } from 'node:perf_hooks';
import type { Asker, Protocol, Reply } from './ask.js';
import type { Target } from './models.js';
import { parsed, same } from './same.js';
import { Tally } from './tally.js';

/** Requests of a burst, so that batches of eight are formed however low the load is. */
const BURST = 8;

export interface Stream {
  readonly target: Target;
  /** Requests a second. */
  readonly rate: number;
}

let nextId = 1;

/** Asks once and judges the answer. */
export async function askOnce(
  asker: Asker,
  protocol: Protocol,
  target: Target,
  at: number,
  tally: Tally,
  due: number,
): Promise<Reply> {
  const id = `chaos-${process.pid}-${nextId++}`;
  tally.sent++;
  const reply = await asker.ask(protocol, target, at, id);
  const took = performance.now() - due;
  if (!reply.ok) tally.failed(`${target.model} ${protocol} ${reply.status}: ${reply.body.slice(0, 300)}`);
  else if (reply.id !== id) tally.wrong(`${target.model} ${protocol}: the answer of ${reply.id} came for ${id}`);
  else if (!same(parsed(reply.body), target.expected[at])) {
    tally.wrong(
      `${target.model} ${protocol} input ${at}: ${reply.body.slice(0, 200)} in place of ${JSON.stringify(target.expected[at]).slice(0, 200)}`,
    );
  } else tally.right(took);
  return reply;
}

/** Learns what an undisturbed server answers, each input alone, over both protocols. @throws when they differ */
export async function learn(
  asker: Asker,
  targets: readonly Target[],
  protocols: readonly Protocol[] = ['http', 'grpc'],
): Promise<void> {
  for (const target of targets) {
    target.expected = [];
    for (const at of target.inputs.keys()) {
      for (const protocol of protocols) {
        const reply = await asker.ask(protocol, target, at, `learn-${nextId++}`);
        if (!reply.ok) throw new Error(`${target.model} input ${at} ${protocol}: ${reply.status} ${reply.body}`);
        const value = parsed(reply.body);
        if (target.expected.length <= at) target.expected.push(value);
        else if (!same(value, target.expected[at])) throw new Error(`${target.model} input ${at}: HTTP and gRPC differ`);
      }
    }
  }
}

/** Open loop: bursts at fixed times, whatever the server does; half of each burst over gRPC. */
export class Load {
  readonly tally = new Tally();
  readonly #asker: Asker;
  readonly #open = new Set<Promise<unknown>>();
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #begun = performance.now();
  readonly #protocols: readonly Protocol[];

  constructor(asker: Asker, streams: readonly Stream[], protocols: readonly Protocol[] = ['http', 'grpc']) {
    this.#asker = asker;
    this.#protocols = protocols;
    for (const stream of streams) this.#send(stream, 0, performance.now());
  }

  get open(): number {
    return this.#open.size;
  }

  /** Sends no more and waits for what is on its way. */
  async stop(): Promise<Tally> {
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#open);
    this.tally.seconds = (performance.now() - this.#begun) / 1000;
    return this.tally;
  }

  #send(stream: Stream, burst: number, due: number): void {
    const { target } = stream;
    for (let item = 0; item < BURST; item++) {
      const protocol = this.#protocols[item % this.#protocols.length]!;
      const at = (burst * BURST + item) % target.inputs.length;
      const asked: Promise<unknown> = askOnce(this.#asker, protocol, target, at, this.tally, due).finally(() =>
        this.#open.delete(asked),
      );
      this.#open.add(asked);
    }
    const next = due + (BURST / stream.rate) * 1000;
    const timer = setTimeout(
      () => {
        this.#timers.splice(this.#timers.indexOf(timer), 1);
        this.#send(stream, burst + 1, next);
      },
      Math.max(0, next - performance.now()),
    );
    this.#timers.push(timer);
  }
}

/** Closed loop: answers a second of each target while all are asked at once by `clients` each. */
export async function capacity(asker: Asker, targets: readonly Target[], clients: number, seconds: number): Promise<number[]> {
  const until = performance.now() + seconds * 1000;
  return await Promise.all(
    targets.map(async (target) => {
      const tally = new Tally();
      const client = async (number: number) => {
        for (let round = 0; performance.now() < until; round++) {
          const at = (number + round) % target.inputs.length;
          await askOnce(asker, number % 2 === 0 ? 'http' : 'grpc', target, at, tally, performance.now());
        }
      };
      await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
      if (tally.bad > 0) throw new Error(`undisturbed answers failed: ${tally.examples.join('; ')}`);
      return tally.answers / seconds;
    }),
  );
}
