// Runs the cases of one setup, in order, on one fresh server.
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isHttp } from './cases.mjs';
import { grpcDifference } from './compare-grpc.mjs';
import { httpDifference } from './compare-http.mjs';
import { grpcExchange, methodOf } from './grpc-exchange.mjs';
import { exchange } from './http-exchange.mjs';
import { requestBytes } from './http-request.mjs';
import { placeholders } from './placeholders.mjs';
import { startServer } from './server-process.mjs';

const answerLimitMs = 60_000;

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */

/**
 * @param {import('./cases.mjs').Setup} setup
 * @param {{ store: string, www: string, files: string, deviations: Record<string, import('./compare-http.mjs').Deviation>, only?: Set<string>, verbose: boolean, print: (line: string) => void }} options
 * @returns {Promise<Counts>}
 */
export async function runSetup(setup, options) {
  const { print, verbose } = options;
  const counts = { passed: 0, failed: 0, skipped: 0 };

  const folder = await mkdtemp(join(tmpdir(), `conformance-${setup.name}-`));
  let server;
  try {
    server = await startServer(setup, { folder, store: options.store });
  } catch (error) {
    print(`FAIL ${setup.name}/start: ${error instanceof Error ? error.message : String(error)}`);
    return { ...counts, failed: setup.cases.length };
  }
  const { addresses } = server;
  const values = placeholders(
    {
      '<inference>': addresses.inference,
      '<management>': addresses.management,
      '<metrics>': addresses.metrics,
      '<www>': options.www,
      '<store>': server.store,
      '<files>': options.files,
    },
    server.keyFile,
  );

  /** @typedef {(deviation?: import('./compare-http.mjs').Deviation) => string | undefined} Differs */

  /** @param {import('./cases.mjs').Case} testCase @returns {Promise<Differs | undefined>} undefined: not sent */
  async function sendHttp(testCase) {
    const { request } = testCase;
    const address = addresses[/** @type {'inference' | 'management' | 'metrics'} */ (request.listener ?? 'inference')];
    if (!address) return undefined;
    const got = await exchange(address, requestBytes(request, address, values.fill), request.method, answerLimitMs);
    return (deviation) => httpDifference(testCase, got, values.fill, deviation);
  }

  /** @param {import('./cases.mjs').Case} testCase @returns {Promise<Differs | undefined>} undefined: not sent */
  async function sendGrpc(testCase) {
    const { request, id } = testCase;
    if (!request?.rpc || methodOf(request.rpc) === undefined) return undefined;
    const management = request.listener === 'management';
    const kind = /-wrong\b/.test(id) ? undefined : management && !/-inf-/.test(id) ? 'management' : 'inference';
    const token = `Bearer ${(kind && values.currentKey(kind)) ?? 'wrong'}`;
    const address = management ? addresses.grpcManagement : addresses.grpcInference;
    const fill = (/** @type {string} */ text) => values.fill(text).replaceAll('<token>', token);
    const got = await grpcExchange(address, request, fill, answerLimitMs);
    return (deviation) => grpcDifference(testCase, got, deviation);
  }

  let told = false;
  try {
    for (const testCase of setup.cases) {
      if (testCase.pause_ms) await sleep(testCase.pause_ms);
      values.readKeys();
      const differs = isHttp(testCase) ? await sendHttp(testCase) : await sendGrpc(testCase);
      if (!server.running() && !told) {
        told = true;
        print(`${setup.name}: the server ended during ${testCase.id}:\n${server.log()}`);
      }
      if (differs === undefined || testCase.unscored || !testCase.response || (options.only && !options.only.has(testCase.id))) {
        counts.skipped++;
        continue;
      }
      const deviation = options.deviations[`${setup.name}/${testCase.id}`];
      const difference = differs(deviation);
      const id = `${testCase.group}/${testCase.id}`;
      if (difference === undefined) {
        counts.passed++;
        if (verbose) print(`ok   ${id}${deviation ? ` (deviates: ${deviation.why})` : ''}`);
      } else {
        counts.failed++;
        print(`FAIL ${id}: ${difference.replaceAll(/\s*\n\s*/g, ' ')}`);
        if (verbose)
          print(`     sent ${JSON.stringify(testCase.request)}\n     wanted ${JSON.stringify(testCase.response).slice(0, 2000)}`);
      }
    }
  } finally {
    await server.stop();
  }
  return counts;
}
