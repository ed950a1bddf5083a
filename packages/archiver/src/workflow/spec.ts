import { type Document, LineCounter, parseDocument } from 'yaml';
import { orderOf, upstreamOf } from './dag.js';
import { WorkflowSpecError } from './spec-error.js';

export { WorkflowSpecError } from './spec-error.js';

/** Settings of one node. */
export interface NodeSettings {
  readonly minWorkers: number;
  readonly maxWorkers: number;
  readonly batchSize: number;
  /** Milliseconds. */
  readonly maxBatchDelay: number;
  /** How often a node that failed is tried again. */
  readonly retryAttempts: number;
  /** Milliseconds that one attempt may take. */
  readonly timeoutMs: number;
}

export type WorkflowNode =
  | { readonly kind: 'model'; readonly name: string; readonly url: string; readonly settings: NodeSettings }
  | { readonly kind: 'function'; readonly name: string; readonly settings: NodeSettings };

/** The spec file of a workflow, checked. */
export interface WorkflowSpec {
  /** What nodes have that do not say otherwise. */
  readonly settings: NodeSettings;
  /** In an order in which each comes after those it waits for; the first is where requests begin. */
  readonly nodes: readonly WorkflowNode[];
  /** Node to its followers, as the file has them. */
  readonly dag: ReadonlyMap<string, readonly string[]>;
  /** Node to those it waits for. */
  readonly upstream: ReadonlyMap<string, readonly string[]>;
  /** Nodes that nothing waits for: their outputs are the answer. */
  readonly leaves: readonly string[];
}

const defaults: NodeSettings = {
  minWorkers: 1,
  maxWorkers: 1,
  batchSize: 1,
  maxBatchDelay: 50,
  retryAttempts: 1,
  timeoutMs: 10_000,
};
const largest = 2_147_483_647;
/** Least and largest value of each setting, by its name in the file. */
const settingKeys: Readonly<Record<string, readonly [keyof NodeSettings, number, number]>> = {
  'min-workers': ['minWorkers', 1, 1024],
  'max-workers': ['maxWorkers', 1, 1024],
  'batch-size': ['batchSize', 1, largest],
  'max-batch-delay': ['maxBatchDelay', 0, largest],
  'retry-attempts': ['retryAttempts', 0, 100],
  'timeout-ms': ['timeoutMs', 1, largest],
};
const namePattern = /^[A-Za-z_][\w.-]{0,127}$/;

/**
 * Reads a workflow spec.
 * @param file for messages
 * @throws {WorkflowSpecError}
 */
export function parseWorkflowSpec(text: string, file: string): WorkflowSpec {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const [broken] = document.errors;
  if (broken !== undefined) {
    throw new WorkflowSpecError(
      'file',
      `${file}:${lines.linePos(broken.pos[0]).line}: no valid YAML: ${firstLine(broken.message)}`,
    );
  }
  const root = valueOf(document, file);
  if (!isObject(root)) throw new WorkflowSpecError('file', `${file} must hold "models:" and "dag:"`);
  for (const key of Object.keys(root)) {
    if (key !== 'models' && key !== 'dag')
      throw new WorkflowSpecError('file', `${file}: the key "${key}" is unknown; there are models and dag`);
  }
  const models = section(root, 'models', file);
  const settings = readSettings(models, defaults, `${file}: models`, true);
  const dag = readDag(section(root, 'dag', file), file);
  const urls = new Map<string, { url: string; settings: NodeSettings }>();
  for (const [name, value] of Object.entries(models)) {
    if (Object.hasOwn(settingKeys, name)) continue;
    if (!isObject(value)) throw new WorkflowSpecError('file', `${file}: models.${name} must be a mapping with a url`);
    const { url } = value;
    if (typeof url !== 'string' || url === '') {
      throw new WorkflowSpecError('file', `${file}: models.${name} has no url, the archive that the node runs`);
    }
    urls.set(name, { url, settings: readSettings(value, settings, `${file}: models.${name}`, false) });
  }
  const order = orderOf(dag, file);
  const known = new Set(order);
  for (const name of urls.keys()) {
    if (!known.has(name)) throw new WorkflowSpecError('dag', `${file}: the model "${name}" is no node of the dag`);
  }
  const nodes = order.map((name): WorkflowNode => {
    const model = urls.get(name);
    if (model === undefined && name === 'then')
      throw new WorkflowSpecError(
        'dag',
        `${file}: no function can be named "then", since JavaScript takes its module for a promise`,
      );
    return model === undefined
      ? { kind: 'function', name, settings: { ...settings, maxBatchDelay: 0 } }
      : { kind: 'model', name, ...model };
  });
  const leaves = order.filter((name) => (dag.get(name) ?? []).length === 0);
  return { settings, nodes, dag, upstream: upstreamOf(dag, order), leaves };
}

function valueOf(document: Document, file: string): unknown {
  try {
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    // Throws when a part of it contains itself by an alias, which nothing that follows expects.
    JSON.stringify(value);
    return value;
  } catch (error) {
    throw new WorkflowSpecError('file', `${file}: no usable YAML: ${firstLine((error as Error).message)}`);
  }
}

function readSettings(from: Record<string, unknown>, base: NodeSettings, where: string, global: boolean): NodeSettings {
  const settings: { -readonly [K in keyof NodeSettings]: number } = { ...base };
  for (const [key, value] of Object.entries(from)) {
    const known = Object.hasOwn(settingKeys, key) ? settingKeys[key] : undefined;
    if (known === undefined) {
      if (global || key === 'url') continue;
      throw new WorkflowSpecError(
        'file',
        `${where}: the key "${key}" is unknown; there are url, ${Object.keys(settingKeys).join(', ')}`,
      );
    }
    const [name, least, most] = known;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) {
      throw new WorkflowSpecError(
        'file',
        `${where}.${key} is ${JSON.stringify(value)}; it must be a whole number from ${least} to ${most}`,
      );
    }
    settings[name] = value;
  }
  if (settings.minWorkers > settings.maxWorkers && from['max-workers'] === undefined) settings.maxWorkers = settings.minWorkers;
  if (settings.minWorkers > settings.maxWorkers) {
    throw new WorkflowSpecError(
      'file',
      `${where}: min-workers ${settings.minWorkers} is above max-workers ${settings.maxWorkers}`,
    );
  }
  return settings;
}

function readDag(from: Record<string, unknown>, file: string): Map<string, readonly string[]> {
  const dag = new Map<string, readonly string[]>();
  for (const [name, value] of Object.entries(from)) {
    const followers: unknown[] = value === null ? [] : Array.isArray(value) ? value : [value];
    for (const node of [name, ...followers]) {
      if (typeof node !== 'string' || !namePattern.test(node)) {
        throw new WorkflowSpecError(
          'dag',
          `${file}: dag.${name}: ${JSON.stringify(node)} is no name of a node (letters, digits, "_", "-", "." and no digit first)`,
        );
      }
    }
    if (new Set(followers).size !== followers.length)
      throw new WorkflowSpecError('dag', `${file}: dag.${name} names a follower twice`);
    dag.set(name, followers as string[]);
  }
  return dag;
}

function section(root: Record<string, unknown>, key: string, file: string): Record<string, unknown> {
  const value = root[key] ?? {};
  if (isObject(value)) return value;
  throw new WorkflowSpecError('file', `${file}: "${key}:" must be a mapping`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function firstLine(message: string): string {
  return message.split('\n')[0] ?? message;
}
