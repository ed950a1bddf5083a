#!/usr/bin/env node
// Replays what real servers answered against ours. README.md beside this file says what counts.
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildModels } from './lib/build-models.mjs';
import { readSetup, readSetups } from './lib/cases.mjs';
import { startFileServer } from './lib/file-server.mjs';
import { runSetup } from './lib/run-setup.mjs';
import { startServer } from './lib/server-process.mjs';

const home = fileURLToPath(new URL('.', import.meta.url));
const usage = `usage: npm run conformance -- [DIR] [--setup NAME,NAME] [--only CASE,CASE] [--verbose]
       npm run conformance -- --serve SETUP_DIR [--inference-port N] [--grpc-port N]

DIR          folder of recorded setups; default: test/conformance
--setup      only these setups, also those that are not run by default
--all        every setup
--only       compare only these cases; the others are still sent
--deviations FILE of cases where we differ on purpose; default: test/conformance/deviations.json
--verbose    name passed cases too, and show what was sent and wanted for failed ones
--serve      start that setup's server in the foreground and compare nothing
`;

/** Setups that wait for a part of the server, with that part. @type {Record<string, string>} */
const notYet = {
  triton: 'the Open Inference Protocol',
  kserve: 'the KServe V1 protocol',
};

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    setup: { type: 'string' },
    all: { type: 'boolean', default: false },
    only: { type: 'string' },
    deviations: { type: 'string', default: join(home, 'deviations.json') },
    verbose: { type: 'boolean', default: false },
    serve: { type: 'string' },
    'inference-port': { type: 'string' },
    'grpc-port': { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
/** @param {string} line */
const print = (line) => console.log(line);
/** @param {string | undefined} text */
const names = (text) => (text === undefined ? undefined : new Set(text.split(',')));
/** @param {string | undefined} text */
const port = (text) => (text === undefined ? undefined : Number(text));

async function compare() {
  const root = resolve(positionals[0] ?? home);
  const chosen = names(options.setup);
  const setups = readSetups(root).filter(({ name }) => !chosen || chosen.has(name));
  if (setups.length === 0) throw new Error(`no setup with recorded cases under ${root}`);
  const deviations = existsSync(options.deviations) ? JSON.parse(readFileSync(options.deviations, 'utf8')) : {};
  const folder = await mkdtemp(join(tmpdir(), 'conformance-models-'));
  const total = { passed: 0, failed: 0, skipped: 0 };
  const store = join(folder, 'store');
  const www = join(folder, 'www');
  await buildModels(store, www);
  const files = await startFileServer(www);
  try {
    for (const setup of setups) {
      const missing = notYet[setup.name];
      if (missing && !chosen && !options.all) {
        print(`${setup.name}: ${setup.cases.length} cases skipped, the server has no support yet for ${missing}`);
        total.skipped += setup.cases.length;
        continue;
      }
      const only = names(options.only);
      const counts = await runSetup(setup, {
        store,
        www,
        files: files.address,
        deviations,
        only,
        verbose: options.verbose,
        print,
      });
      print(`${setup.name}: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
      total.passed += counts.passed;
      total.failed += counts.failed;
      total.skipped += counts.skipped;
    }
  } finally {
    files.stop();
    await rm(folder, { recursive: true, force: true });
  }
  print(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
  process.exitCode = total.failed > 0 ? 1 : 0;
}

/** @param {string} directory */
async function serve(directory) {
  const folder = await mkdtemp(join(tmpdir(), 'conformance-serve-'));
  const store = join(folder, 'archives');
  const www = join(folder, 'www');
  await buildModels(store, www);
  const inferencePort = port(options['inference-port']);
  const grpcPort = port(options['grpc-port']);
  const setup = readSetup(resolve(directory));
  const server = await startServer(setup, { folder, store, inferencePort, grpcPort, foreground: true });
  print(JSON.stringify(server.addresses));
  const stop = () => void server.stop();
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  await server.exited;
  await server.stop();
}

if (options.help) print(usage);
else if (options.serve) await serve(options.serve);
else await compare();
