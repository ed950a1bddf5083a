// Starts a server in a setup's state: its configuration, a model store of its own, free ports. Waits until it is ready.
import { spawn } from 'node:child_process';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../../../packages/runtime/bin/onnxserve.js', import.meta.url));
const startLimitMs = 90_000;
const stopLimitMs = 15_000;

/** @param {number} count @returns {Promise<number[]>} ports that were free a moment ago, all different */
async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer());
  const ports = [];
  for (const server of servers) {
    await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
    ports.push(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/**
 * @typedef {object} ServerOptions
 * @property {string} folder empty folder for everything the server writes
 * @property {string} store archives, copied so that what a case removes comes back for the next setup
 * @property {number} [inferencePort]
 * @property {number} [grpcPort]
 * @property {boolean} [foreground] its output goes to ours
 */

/**
 * @param {import('./cases.mjs').Setup} setup
 * @param {ServerOptions} options
 */
export async function startServer(setup, options) {
  const { folder } = options;
  const store = join(folder, 'model_store');
  const workflows = join(folder, 'workflow_store');
  const temp = join(folder, 'tmp');
  await cp(options.store, store, { recursive: true });
  await mkdir(workflows);
  if (/workflow store has/.test(setup.configuration))
    await cp(join(options.store, '..', 'workflows'), workflows, { recursive: true });
  await mkdir(temp);
  const free = await freePorts(5);
  const inference = options.inferencePort ?? free[0];
  const management = setup.singlePort ? inference : free[1];
  const [, , metrics, grpcInference, grpcManagement] = free;
  const addresses = {
    inference: `127.0.0.1:${inference}`,
    management: `127.0.0.1:${management}`,
    metrics: `127.0.0.1:${metrics}`,
    grpcInference: `127.0.0.1:${options.grpcPort ?? grpcInference}`,
    grpcManagement: `127.0.0.1:${grpcManagement}`,
  };
  const configuration = [
    setup.configuration.trimEnd(),
    `inference_address=http://${addresses.inference}`,
    `management_address=http://${addresses.management}`,
    `metrics_address=http://${addresses.metrics}`,
    `grpc_inference_port=${options.grpcPort ?? grpcInference}`,
    `grpc_management_port=${grpcManagement}`,
    `model_store=${store}`,
    `workflow_store=${workflows}`,
    '',
  ].join('\n');
  const configFile = join(folder, 'config.properties');
  await writeFile(configFile, configuration);

  const decode = /^decode_input_request=(.*)$/m.exec(setup.configuration)?.[1]?.trim() ?? 'true';
  const args = [program, 'start', '--foreground', '--ts-config', configFile, '--model-store', store, '--ncs'];
  const child = spawn(process.execPath, args, {
    cwd: folder,
    // The setup alone decides: nothing of TorchServe's or ours is taken from the caller's environment.
    env: { ...withoutSettings(process.env), TMPDIR: temp, KIT_DECODE_INPUT_REQUEST: decode, ...setup.environment },
    stdio: ['ignore', options.foreground ? 'inherit' : 'pipe', options.foreground ? 'inherit' : 'pipe'],
  });
  const log = lastLines(child, 40);
  const exited = new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code)));
  const running = () => child.exitCode === null && child.signalCode === null;

  async function stop() {
    if (running()) {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), stopLimitMs);
      await exited;
      clearTimeout(timer);
    }
    await rm(folder, { recursive: true, force: true });
  }

  const server = { addresses, store, keyFile: join(folder, 'key_file.json'), log, running, exited, stop };
  try {
    await ready(server);
  } catch (error) {
    await stop();
    throw error;
  }
  return server;
}

/** @param {NodeJS.ProcessEnv} environment */
function withoutSettings(environment) {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => !/^(TS_|ONNXSERVE_|LOG_LOCATION|METRICS_LOCATION)/.test(name)),
  );
}

/** @param {import('node:child_process').ChildProcess} child @param {number} count */
function lastLines(child, count) {
  /** @type {string[]} */
  const lines = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (data) => {
      lines.push(...String(data).trimEnd().split('\n'));
      lines.splice(0, lines.length - count);
    });
  }
  return () => lines.join('\n');
}

/**
 * Waits for the readiness probe, which needs no token: every start-up model is loaded and has its workers.
 * @param {{ addresses: Record<string, string>, log: () => string, running: () => boolean }} server
 */
async function ready({ addresses, log, running }) {
  const deadline = Date.now() + startLimitMs;
  const probe = `http://${addresses.inference}/health/ready`;
  for (;;) {
    const status = await fetch(probe, { signal: AbortSignal.timeout(5000) }).then(
      (response) => response.status,
      () => 0, // not listening yet
    );
    if (status === 200) return;
    if (!running()) throw new Error(`the server ended while starting:\n${log()}`);
    if (Date.now() > deadline) throw new Error(`the server was not ready within ${startLimitMs / 1000} s:\n${log()}`);
    await sleep(50);
  }
}
