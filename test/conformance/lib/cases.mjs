// Reads a tree of recorded exchanges: which setups it has and which cases each of them holds.
import { readdirSync, readFileSync, existsSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';

/**
 * One recorded exchange. HTTP requests have a method or raw bytes, gRPC ones an `rpc`.
 * @typedef {object} Case
 * @property {string} id unique within its setup
 * @property {string} group
 * @property {Record<string, any>} request
 * @property {Record<string, any> | null | undefined} response
 * @property {boolean} [unscored] sent for its effect on what follows, never compared
 * @property {Array<number | string>} [allow] statuses that count as well as the recorded one
 * @property {number} [pause_ms] wait before sending
 */

/**
 * A server state: its configuration and the cases that run on it, in order.
 * @typedef {object} Setup
 * @property {string} name name of the folder
 * @property {string} directory
 * @property {'torchserve' | 'oip'} family
 * @property {string} configuration text of config.properties, empty when there is none
 * @property {Record<string, string>} environment what the first line says was set in the environment
 * @property {boolean} singlePort inference and management share one address
 * @property {Case[]} cases
 */

/**
 * @param {string} directory a setup folder
 * @returns {Setup}
 */
export function readSetup(directory) {
  const file = join(directory, 'config.properties');
  const configuration = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const comments = configuration
    .split('\n')
    .filter((line) => line.startsWith('#'))
    .join('\n');
  const environment = /** @type {Record<string, string>} */ ({});
  for (const match of (comments.split('\n')[0] ?? '').matchAll(/\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)=([^\s,;)]+)/g)) {
    environment[match[1] ?? ''] = match[2] ?? '';
  }
  const files = readdirSync(directory)
    .filter((name) => name.endsWith('.jsonl'))
    .sort();
  return {
    name: basename(directory),
    directory,
    family: relative(resolve(directory, '..', '..'), directory).startsWith('oip') ? 'oip' : 'torchserve',
    configuration,
    environment,
    singlePort: /single_port|one listener/.test(comments),
    cases: files.flatMap((name) => readCases(join(directory, name))),
  };
}

/** @param {string} file @returns {Case[]} */
function readCases(file) {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => JSON.parse(line));
}

/**
 * Every folder at or under `root` that holds exchanges.
 * @param {string} root
 * @returns {Setup[]} in order of their paths
 */
export function readSetups(root) {
  /** @type {Setup[]} */
  const setups = [];
  /** @param {string} directory @param {number} depth */
  const visit = (directory, depth) => {
    const entries = readdirSync(directory, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
    if (entries.some((entry) => /\.(http|grpc)\.jsonl$/.test(entry.name))) setups.push(readSetup(directory));
    if (depth === 0) return;
    for (const entry of entries) {
      if (entry.isDirectory() && !/^(node_modules|lib|models)$/.test(entry.name)) visit(join(directory, entry.name), depth - 1);
    }
  };
  visit(resolve(root), 3);
  return setups;
}

/** @param {Case} testCase */
export function isHttp(testCase) {
  const { request } = testCase;
  return Boolean(request && !request.rpc && (request.method || request.raw_b64));
}
