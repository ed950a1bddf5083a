import { spawn } from 'node:child_process';
import { existsSync, openAsBlob } from 'node:fs';
import { join } from 'node:path';

/**
 * @typedef {object} Quickstart
 * @property {() => string} output what it printed so far
 * @property {string[]} requests the curl commands that it prints
 * @property {Record<string, string>} listeners inference, management, metrics and gRPC to their addresses
 * @property {(signal?: NodeJS.Signals) => Promise<number | string | null>} stop sends a signal, Ctrl-C's unless told, and gives the exit status
 */

/**
 * Starts `node quickstart.mjs` and waits until it serves.
 * @param {string} folder the checkout
 * @param {string[]} flags
 * @param {Record<string, string>} [environment]
 * @returns {Promise<Quickstart>}
 */
export async function startQuickstart(folder, flags, environment = {}) {
  const child = spawn(process.execPath, [join(folder, 'quickstart.mjs'), ...flags], {
    cwd: folder,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  /** @type {Promise<number | string | null>} */
  const exit = new Promise((done) => child.once('close', (code, signal) => done(signal ?? code)));
  await new Promise((done, failed) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (/** @type {string} */ text) => {
        output += text;
        if (output.includes('Ctrl-C stops the server.\n')) done(undefined);
      });
    }
    void exit.then((status) => failed(new Error(`quickstart ended with ${status}:\n${output}`)));
  });
  return {
    output: () => output,
    requests: [...output.matchAll(/^ {2}(curl .+)$/gm)].map(([, command]) => String(command)),
    listeners: Object.fromEntries(
      [...output.matchAll(/^(inference|management|metrics|gRPC) +((?:http:\/\/)?[^/\s]+)/gm)].map(([, name, url]) => [name, url]),
    ),
    stop: async (signal = 'SIGINT') => {
      child.kill(signal);
      return await exit;
    },
  };
}

/**
 * Does what a curl command of the documentation does.
 * @param {string} command
 * @param {object} where
 * @param {string} where.folder where its files are
 * @param {(url: string) => string} [where.url] from the address in the command to the one to ask
 * @param {string} [where.sample] stands for files that a reader would bring
 */
export async function curl(command, { folder, url: change = (url) => url, sample }) {
  const words = [...command.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? '');
  const form = new FormData();
  const headers = new Headers();
  let url = '';
  let method = 'GET';
  /** @type {Blob | undefined} */
  let body;
  const file = async (/** @type {string} */ name) => {
    const path = join(folder, name);
    if (!existsSync(path) && sample === undefined) throw new Error(`${command}: there is no ${name}`);
    return await openAsBlob(existsSync(path) ? path : String(sample));
  };
  for (let at = 1; at < words.length; at++) {
    const word = words[at] ?? '';
    const value = words[at + 1] ?? '';
    switch (word) {
      case '-s':
      case '-i':
        continue;
      case '-T':
        method = 'PUT';
        body = await file(value);
        break;
      case '-F': {
        method = 'POST';
        const [name = '', content = ''] = value.split(/=(.*)/s);
        form.append(name, content.startsWith('@') ? await file(content.slice(1)) : content);
        break;
      }
      case '-H': {
        const [name = '', content = ''] = value.split(/: *(.*)/s);
        headers.set(name, content);
        break;
      }
      case '-X':
        method = value;
        break;
      default:
        if (word.startsWith('-')) throw new Error(`${command}: ${word} is a flag that this check does not know`);
        url = change(word);
        continue;
    }
    at++;
  }
  const parts = [...form.keys()].length > 0 ? form : body;
  return await fetch(url, { method, headers, ...(parts === undefined ? {} : { body: parts }) });
}
