// Runs the cases of one setup, in order, on one fresh server.
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isHttp } from './cases.mjs';
import { httpDifference } from './compare-http.mjs';
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
  const grpc = setup.cases.filter((testCase) => !isHttp(testCase)).length;
  if (grpc > 0) print(`${setup.name}: ${grpc} gRPC cases skipped, the server has no gRPC listener yet`);

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

  let told = false;
  try {
    for (const testCase of setup.cases) {
      const { request } = testCase;
      const listener = /** @type {'inference' | 'management' | 'metrics'} */ (request?.listener ?? 'inference');
      const address = addresses[listener];
      if (!isHttp(testCase) || !address) {
        counts.skipped++;
        continue;
      }
      if (testCase.pause_ms) await sleep(testCase.pause_ms);
      values.readKeys();
      const got = await exchange(address, requestBytes(request, address, values.fill), request.method, answerLimitMs);
      if (!server.running() && !told) {
        told = true;
        print(`${setup.name}: the server ended during ${testCase.id}:\n${server.log()}`);
      }
      if (testCase.unscored || !testCase.response || (options.only && !options.only.has(testCase.id))) {
        counts.skipped++;
        continue;
      }
      const deviation = options.deviations[`${setup.name}/${testCase.id}`];
      const difference = httpDifference(testCase, got, values.fill, deviation);
      const id = `${testCase.group}/${testCase.id}`;
      if (difference === undefined) {
        counts.passed++;
        if (verbose) print(`ok   ${id}${deviation ? ` (deviates: ${deviation.why})` : ''}`);
      } else {
        counts.failed++;
        print(`FAIL ${id}: ${difference.replaceAll(/\s*\n\s*/g, ' ')}`);
        if (verbose)
          print(`     sent ${JSON.stringify(request)}\n     wanted ${JSON.stringify(testCase.response).slice(0, 2000)}`);
      }
    }
  } finally {
    await server.stop();
  }
  return counts;
}
