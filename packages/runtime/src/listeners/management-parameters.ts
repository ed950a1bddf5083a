import { nearest } from '../config/suggest.js';
import type { ServerConfig } from '../config/server-config.js';
import { ServeError } from '../domain/errors.js';
import type { RegisterOptions, ScaleOptions } from '../serving/management-service.js';

export type Pairs = ReadonlyArray<readonly [string, string]>;
type Limits = Pick<ServerConfig, 'maxWorkersLimit'>;

const bad = (message: string) => new ServeError('BAD_REQUEST', message);
const largest = 2_147_483_647;

/** The first value of a parameter; an empty one counts as not given. */
function text(query: Pairs, key: string): string | undefined {
  const value = query.find(([name]) => name === key)?.[1];
  return value === '' ? undefined : value;
}

/** @throws {ServeError} BAD_REQUEST unless it is `true` or `false`, in any case */
export function booleanParameter(query: Pairs, key: string, fallback: boolean): boolean {
  const value = text(query, key)?.toLowerCase();
  if (value === undefined) return fallback;
  if (value === 'true' || value === 'false') return value === 'true';
  throw bad(`${key}=${value.slice(0, 40)} is neither true nor false.`);
}

function integer(value: unknown, key: string, least: number, most: number, raise = ''): number | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  const number = typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number)) {
    throw bad(`${key}=${JSON.stringify(value).slice(0, 60)} is not an integer.`);
  }
  if (number < least) throw bad(`${key}=${number} is below the least value, ${least}.`);
  if (number > most) throw bad(`${key}=${number} is above the limit of ${most}${raise}.`);
  return number;
}

function workers(value: unknown, key: string, { maxWorkersLimit }: Limits): number | undefined {
  return integer(value, key, 0, maxWorkersLimit, ' workers; raise max_workers_limit to allow more');
}

/** TorchServe's calls carry parameters that mean nothing here; what looks like a slip of the pen is refused instead of ignored. */
export function refuseTypos(names: Iterable<string>, known: readonly string[]): void {
  for (const name of names) {
    if (known.includes(name)) continue;
    const meant = nearest(name, known);
    if (meant !== undefined) throw bad(`The parameter ${name.slice(0, 40)} is unknown; did you mean ${meant}?`);
  }
}

const scaleParameters = ['min_worker', 'max_worker', 'synchronous', 'number_gpu', 'timeout', 'model_version'];
const registerParameters = [
  'url',
  'model_name',
  'handler',
  'runtime',
  'batch_size',
  'max_batch_delay',
  'response_timeout',
  'startup_timeout',
  'initial_workers',
  'synchronous',
  's3_sse_kms',
];

/** `min_worker` is 1 when not given, `max_worker` as many as the least. */
export function scaleOptions(query: Pairs, limits: Limits): ScaleOptions {
  refuseTypos(
    query.map(([name]) => name),
    scaleParameters,
  );
  const minWorkers = workers(text(query, 'min_worker'), 'min_worker', limits) ?? 1;
  const maxWorkers = workers(text(query, 'max_worker'), 'max_worker', limits) ?? minWorkers;
  if (minWorkers > maxWorkers) throw bad(`min_worker=${minWorkers} is above max_worker=${maxWorkers}.`);
  return { minWorkers, maxWorkers, synchronous: booleanParameter(query, 'synchronous', false) };
}

/** `limit` models (1 to 100, more counts as 100) from the position `next_page_token` on. */
export function listOptions(query: Pairs): { limit: number; pageToken: number } {
  const limit = integer(text(query, 'limit'), 'limit', 1, largest) ?? 100;
  const pageToken = integer(text(query, 'next_page_token'), 'next_page_token', 0, largest) ?? 0;
  return { limit: Math.min(limit, 100), pageToken };
}

/** Registration by query parameters. @throws {ServeError} BAD_REQUEST naming the parameter */
export function registerOptions(query: Pairs, limits: Limits): RegisterOptions {
  refuseTypos(
    query.map(([name]) => name),
    registerParameters,
  );
  const url = query.find(([name]) => name === 'url')?.[1];
  return fromFields((key) => text(query, key), url, booleanParameter(query, 'synchronous', true), limits);
}

/** Registration by a JSON body; its keys are those of the query, numbers may be strings. */
export function registerOptionsOfJson(body: Buffer, limits: Limits): RegisterOptions {
  const fields = jsonObject(body);
  refuseTypos(Object.keys(fields), registerParameters);
  const field = (key: string) => (Object.hasOwn(fields, key) && fields[key] !== null ? fields[key] : undefined);
  const { url, synchronous } = { url: field('url'), synchronous: field('synchronous') };
  if (url !== undefined && typeof url !== 'string') throw bad('url must be text.');
  const flag =
    synchronous === undefined
      ? []
      : [['synchronous', typeof synchronous === 'string' ? synchronous : JSON.stringify(synchronous)] as const];
  return fromFields(field, url, booleanParameter(flag, 'synchronous', true), limits);
}

/** @throws {ServeError} BAD_REQUEST unless the body is a JSON object */
export function jsonObject(body: Buffer): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw new ServeError('BAD_REQUEST', `The body is not valid JSON: ${(error as Error).message}.`, { cause: error });
  }
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed as Record<string, unknown>;
  throw bad('The body must be a JSON object with the key url.');
}

function fromFields(
  field: (key: string) => unknown,
  url: string | undefined,
  synchronous: boolean,
  limits: Limits,
): RegisterOptions {
  if (url === undefined) throw bad('url is missing; give the archive to register as ?url=... or in a JSON body.');
  if (url === '') throw new ServeError('MODEL_NOT_FOUND', 'url is empty; it must name an archive.');
  const named = (key: string) => {
    const value = field(key);
    if (value === undefined || value === '') return undefined;
    if (typeof value !== 'string') throw bad(`${key} must be text.`);
    return value;
  };
  // -1 is how TorchServe's clients say that a timeout is not given.
  const timeout = (key: string) => {
    const value = integer(field(key), key, -1, largest);
    return value === -1 ? undefined : value;
  };
  return {
    url,
    modelName: named('model_name'),
    handler: named('handler'),
    runtime: named('runtime'),
    batchSize: integer(field('batch_size'), 'batch_size', 1, 1_000_000),
    maxBatchDelay: integer(field('max_batch_delay'), 'max_batch_delay', 0, largest),
    initialWorkers: workers(field('initial_workers'), 'initial_workers', limits),
    synchronous,
    responseTimeout: timeout('response_timeout'),
    startupTimeout: timeout('startup_timeout'),
  };
}
