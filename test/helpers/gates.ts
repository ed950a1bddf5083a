import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Places where a handler in another process stops until the test lets it go on: it fetches `url/NAME`. */
export interface Gates {
  readonly url: string;
  /** Resolves when somebody waits at the gate. */
  reached(name: string): Promise<void>;
  /** Lets one go on: who waits there, or the next to come. */
  open(name: string): void;
  /** Lets everybody go on from now on. */
  openAll(): void;
  close(): void;
}

interface Gate {
  readonly waiting: ServerResponse[];
  readonly watchers: Array<() => void>;
  tickets: number;
}

export async function startGates(): Promise<Gates> {
  const gates = new Map<string, Gate>();
  let all = false;
  const gate = (name: string): Gate => {
    const known = gates.get(name) ?? { waiting: [], watchers: [], tickets: 0 };
    gates.set(name, known);
    return known;
  };
  const server = createServer((request, response) => {
    const it = gate((request.url ?? '/').slice(1));
    if (all) return void response.end();
    for (const watcher of it.watchers.splice(0)) watcher();
    if (it.tickets > 0) {
      it.tickets--;
      response.end();
      return;
    }
    it.waiting.push(response);
    response.once('close', () => {
      const at = it.waiting.indexOf(response);
      if (at >= 0) it.waiting.splice(at, 1);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async reached(name) {
      const it = gate(name);
      if (it.waiting.length === 0) await new Promise<void>((resolve) => it.watchers.push(resolve));
    },
    open(name) {
      const it = gate(name);
      const response = it.waiting.shift();
      if (response === undefined) it.tickets++;
      else response.end();
    },
    openAll() {
      all = true;
      for (const { waiting } of gates.values()) for (const response of waiting.splice(0)) response.end();
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
