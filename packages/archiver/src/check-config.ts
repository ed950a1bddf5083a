import { readFile } from 'node:fs/promises';
import { isMap, isScalar, LineCounter, parseDocument, type YAMLMap } from 'yaml';
import { ArchiveError } from './archive-error.js';

const integers = new Set([
  'minWorkers',
  'maxWorkers',
  'batchSize',
  'maxBatchDelay',
  'responseTimeout',
  'startupTimeout',
  'maxRetryTimeoutInSec',
  'clientTimeoutInMills',
  'jobQueueSize',
  'parallelLevel',
  'sequenceMaxIdleMSec',
  'sequenceTimeoutMSec',
  'maxNumSequence',
  'maxSequenceJobQueueSize',
]);
const booleans = new Set(['useJobTicket', 'continuousBatching', 'sequenceBatching', 'useVenv', 'rerunOnWorkerDeath']);

/** Files of the archive that a config names. */
export interface ConfigReferences {
  readonly handler: string | undefined;
  readonly models: readonly string[];
}

/**
 * Reads a model config and refuses what a server would only warn about: no YAML, or a setting of the wrong type.
 * @throws {ArchiveError} naming file, line and setting
 */
export async function checkConfig(file: string, modelName: string): Promise<ConfigReferences> {
  const lines = new LineCounter();
  const text = await readFile(file, 'utf8').catch(() => {
    throw new ArchiveError(`--config-file names ${file}, which cannot be read.`);
  });
  const document = parseDocument(text, { lineCounter: lines });
  const [error] = document.errors;
  if (error) throw new ArchiveError(`${file}:${error.linePos?.[0].line ?? 1}: ${error.message.split('\n')[0]}`);
  if (document.contents === null) return { handler: undefined, models: [] };
  if (!isMap(document.contents)) throw new ArchiveError(`${file} must hold settings (key: value).`);
  const found: { handler: string | undefined; models: string[] } = { handler: undefined, models: [] };
  for (const map of levels(document.contents, modelName)) checkLevel(map, file, lines, found);
  return found;
}

/** Settings stand at the top, under `models: NAME:` or under `NAME:`. */
function levels(top: YAMLMap, modelName: string): YAMLMap[] {
  const nested = [top.getIn(['models', modelName]), top.get(modelName)];
  return [top, ...nested.filter((value) => isMap(value))];
}

function checkLevel(map: YAMLMap, file: string, lines: LineCounter, found: { handler: string | undefined; models: string[] }) {
  for (const { key, value } of map.items) {
    if (!isScalar(key)) continue;
    const name = String(key.value);
    const line = lines.linePos(key.range?.[0] ?? 0).line;
    const plain = isScalar(value) ? value.value : value;
    const fail = (wanted: string) => {
      throw new ArchiveError(`${file}:${line}: ${name} must be ${wanted}, not ${JSON.stringify(plain)}.`);
    };
    if (integers.has(name) && !(typeof plain === 'number' && Number.isInteger(plain))) fail('an integer');
    if (booleans.has(name) && typeof plain !== 'boolean') fail('true or false');
    if (name === 'handler' && typeof plain === 'string') found.handler = plain;
    if (name !== 'onnx') continue;
    if (!isMap(value)) {
      fail('a map of settings');
      continue;
    }
    const onnx = value.toJSON() as { model?: unknown; sessions?: unknown };
    for (const model of [onnx.model, ...Object.values((onnx.sessions ?? {}) as Record<string, unknown>)]) {
      if (typeof model === 'string') found.models.push(model);
    }
  }
}
