#!/usr/bin/env node
// Installs, builds, archives two examples and serves them. Runs before `npm ci`, so it uses Node's own modules only.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const defaultPort = 8080;
const root = fileURLToPath(new URL('.', import.meta.url));
const examples = { digits: 'samples/7.png', ocr: 'samples/sign.jpg' };
const help = `Usage: node quickstart.mjs [options]

Installs the dependencies, builds, archives the examples ${Object.keys(examples).join(' and ')} into ./model_store and serves them.
What is up to date is not done again. Ctrl-C stops the server: accepted requests finish first.

Options:
  --port N           port of the inference listener; management, metrics and the two of gRPC take the next four. 0: any free ports (default: 8080, gRPC 7070)
  --model-store DIR  where the archives go (default: model_store)
  --no-serve         stop after the archives are made
  --no-install       do not run npm ci, even if node_modules is missing or older than package-lock.json
  --help             this text`;

const say = (text) => void process.stdout.write(`${text}\n`);
const complain = (text) => void process.stderr.write(`${text}\n`);

const running = new Set();
let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    interrupted = true;
    for (const child of running) child.kill('SIGTERM');
    if (running.size === 0) process.exit(130);
  });
}

try {
  await main(options());
} catch (error) {
  if (!interrupted) complain(`quickstart: ${error.message}`);
  process.exitCode = interrupted ? 130 : 1;
}

async function main({ port, store, serve, install }) {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) throw new Error(`Node 20.19 or later is needed, this is ${process.version}`);
  const started = performance.now();

  if (install && installIsStale()) await step('install the dependencies (npm ci)', () => npm(['ci', '--no-audit', '--no-fund']));
  await step('build', () => npm(['run', '--silent', 'build', '--', '--filter=@onnxserve/runtime']));
  mkdirSync(store, { recursive: true });
  for (const name of Object.keys(examples)) {
    const folder = join('packages/examples', name);
    // Relative, so that no shell has to quote it.
    const target = relative(join(root, folder), store);
    await step(`archive ${name}`, () =>
      npm(['run', '--silent', 'archive', '--workspace', folder, '--', '--export-path', target]),
    );
  }
  const models = Object.keys(examples).map((name) => `${name}=${name}.mar`);
  if (!serve) {
    const shown = relative(process.cwd(), store) || '.';
    say(`\nServe them with:\n  npx onnxserve start --model-store ${shown} --models ${models.join(' ')}`);
    return;
  }
  const server = await step('start the server', () => startServer({ port, store, models }));
  announce(server, (performance.now() - started) / 1000);
  const status = await server.exit;
  running.delete(server.child);
  if (status !== 0) throw new Error(`the server ended with ${status}; logs/ts_log.log has the details`);
  say('\nStopped.');
}

function options() {
  try {
    const { values } = parseArgs({
      options: {
        port: { type: 'string', default: String(defaultPort) },
        'model-store': { type: 'string', default: join(root, 'model_store') },
        'no-serve': { type: 'boolean', default: false },
        'no-install': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      say(help);
      process.exit(0);
    }
    const port = Number(values.port);
    if (!/^\d+$/.test(values.port) || port > 65_531)
      throw new Error(`--port wants a number from 0 to 65531, got "${values.port}"`);
    return { port, store: resolve(values['model-store']), serve: !values['no-serve'], install: !values['no-install'] };
  } catch (error) {
    complain(`quickstart: ${error.message}\n\n${help}`);
    process.exit(2);
  }
}

/** npm writes this file last; it is older than the lock file when the lock file has changed since. */
function installIsStale() {
  const installed = join(root, 'node_modules/.package-lock.json');
  return !existsSync(installed) || statSync(installed).mtimeMs < statSync(join(root, 'package-lock.json')).mtimeMs;
}

/** One line for each step with its seconds; while it runs a terminal shows that it does. */
async function step(title, work) {
  const started = performance.now();
  const seconds = (digits) => `${((performance.now() - started) / 1000).toFixed(digits)} s`;
  const frames = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏';
  let frame = 0;
  const draw = () => process.stdout.write(`\r\x1b[K${frames[frame++ % frames.length]} ${title}  ${seconds(0)}`);
  const timer = process.stdout.isTTY ? setInterval(draw, 100) : undefined;
  const end = (mark) => {
    clearInterval(timer);
    say(`${timer === undefined ? '' : '\r\x1b[K'}${mark} ${title}  ${seconds(1)}`);
  };
  try {
    const result = await work();
    end('✓');
    return result;
  } catch (error) {
    end('✗');
    throw error;
  }
}

async function npm(args) {
  await run('npm', args, process.platform === 'win32');
}

/** Runs a program in the checkout. What it prints is shown only when it fails. */
async function run(program, args, shell = false) {
  const env = { ...process.env, TURBO_TELEMETRY_DISABLED: '1' };
  const child = spawn(program, args, { cwd: root, env, shell, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const status = await new Promise((done, failed) => {
    child.once('error', failed);
    child.once('close', (code, signal) => done(signal ?? code));
  });
  running.delete(child);
  if (interrupted) throw new Error('interrupted');
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${status}:\n${output.trimEnd()}`);
}

/** With the usual port the usual ports of gRPC, else those after the listeners of HTTP. */
function grpcPort(port, offset) {
  if (port === 0) return 0;
  return port === defaultPort ? 7070 + offset : port + 3 + offset;
}

async function startServer({ port, store, models }) {
  const address = (offset) => `http://127.0.0.1:${port === 0 ? 0 : port + offset}`;
  const settings = {
    inference_address: address(0),
    management_address: address(1),
    metrics_address: address(2),
    grpc_inference_port: grpcPort(port, 0),
    grpc_management_port: grpcPort(port, 1),
    // The files have it all; here it would hide the request to try.
    log_stdout: 'false',
  };
  const flags = Object.entries(settings).map(([key, value]) => `--set=${key}=${value}`);
  const { TS_CONFIG_FILE: _, ...environment } = process.env;
  const child = spawn(
    process.execPath,
    [join(root, 'packages/runtime/bin/onnxserve.js'), 'start', '--model-store', store, '--models', ...models, ...flags],
    { cwd: root, env: { ...environment, ONNXSERVE_ANNOUNCE: '1' }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  running.add(child);
  const exit = new Promise((done) => child.once('close', (code, signal) => done(signal ?? code)));
  let output = '';
  const ready = new Promise((done) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text;
        const complete = output.split('\n').slice(0, -1);
        const line = complete.find((it) => it.startsWith('{"event":"ready"'));
        if (line !== undefined) done(JSON.parse(line));
      });
    }
  });
  const ended = exit.then((status) => {
    running.delete(child);
    throw new Error(`the server ended with ${status}:\n${output.trimEnd()}`);
  });
  const { inference, management, metrics, grpcInference, failures } = await Promise.race([ready, ended]);
  // From here on its end is what main waits for.
  ended.catch(() => undefined);
  if (failures.length > 0) {
    child.kill('SIGTERM');
    throw new Error(`not every model could be loaded:\n${failures.join('\n')}`);
  }
  return { child, exit, inference, management, metrics, grpcInference };
}

function announce({ inference, management, metrics, grpcInference }, seconds) {
  const requests = Object.entries(examples).map(([name, sample]) => {
    const file = relative(process.cwd(), join(root, 'packages/examples', name, sample));
    return `  curl ${inference}/predictions/${name} -T ${file}`;
  });
  say(`
Serving ${Object.keys(examples).join(' and ')} after ${seconds.toFixed(1)} s. Try, in another terminal:

${requests.join('\n')}

inference   ${inference}
management  ${management}/models
metrics     ${metrics}/metrics
gRPC        ${grpcInference}
logs        ${process.env['LOG_LOCATION'] ?? join(relative(process.cwd(), root), 'logs')}

Ctrl-C stops the server.`);
}
