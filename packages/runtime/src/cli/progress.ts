import type { RunningServer } from '../server.js';
import type { StartupProgress } from '../serving/startup.js';

type Addresses = RunningServer['addresses'];

/** What start-up prints: one line per model on a terminal or not, then where the server listens. */
export class Progress {
  readonly #started = performance.now();
  readonly #quiet = process.env['ONNXSERVE_ANNOUNCE'] === '1';

  show(event: StartupProgress): void {
    if (this.#quiet) return;
    const mark = { loading: '…', ready: '✓', failed: '✗' }[event.state];
    console.log(`${mark} ${event.message}`);
  }

  end(addresses: Addresses, failures: readonly string[]): void {
    if (this.#quiet) return;
    const seconds = ((performance.now() - this.#started) / 1000).toFixed(1);
    console.log(
      `onnxserve listens after ${seconds} s: inference ${addresses.inference}, management ${addresses.management}, metrics ${addresses.metrics ?? 'off'}, gRPC ${addresses.grpcInference} (management ${addresses.grpcManagement})`,
    );
    if (failures.length > 0)
      console.log(`${failures.length} model(s) could not be loaded; the server stays up and is not ready.`);
  }
}

/** One line of JSON for programs that start a server and want to know where it is. */
export function announce(event: string, fields: object): void {
  if (process.env['ONNXSERVE_ANNOUNCE'] === '1') process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}
