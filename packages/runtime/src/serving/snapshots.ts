import { chmod, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { ServerConfig } from '../config/server-config.js';
import {
  formatSnapshot,
  nameOfSnapshot,
  type SnapshotKind,
  type SnapshotModel,
  snapshotName,
} from '../config/snapshot-format.js';
import { modelChanged } from '../domain/events.js';
import type { ModelServer } from './model-server.js';
import type { ServedModel } from './served-model.js';

export interface SnapshotsOptions {
  readonly folder: string;
  /** Snapshots kept, the newest. */
  readonly keep: number;
  readonly config: Pick<ServerConfig, 'loadModels' | 'models'>;
  /** Keys of config.properties that somebody set, without secrets. */
  readonly values: ReadonlyMap<string, string>;
  readonly models: ModelServer;
  readonly warn: (sentence: string) => void;
  readonly now?: () => Date;
}

type Models = Record<string, Record<string, SnapshotModel>>;

/**
 * Writes what the server serves to a file after every change, so that a restart finds it. Nobody waits for the disk, and a folder that
 * cannot be written costs nothing but the snapshots.
 */
export class Snapshots {
  readonly #options: SnapshotsOptions;
  #unsubscribe: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();
  #scheduled = false;
  #warned = false;
  #off = false;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
  }

  /** Writes the first one, when the start-up models are there, and follows every change from then on. */
  start(): void {
    this.#enqueue('startup');
    this.#unsubscribe = modelChanged.subscribe(() => this.#schedule());
  }

  /** Writes the last one. What stopping does to the models is no change. */
  async close(): Promise<void> {
    if (this.#unsubscribe === undefined) return;
    this.#unsubscribe();
    this.#unsubscribe = undefined;
    this.#enqueue('shutdown');
    await this.#writing;
  }

  /** Changes of one turn are one snapshot, and so are those that come while one is being written. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#writing = this.#writing.then(async () => {
      this.#scheduled = false;
      if (this.#unsubscribe !== undefined) await this.#write('snapshot', snapshotModels(this.#options));
    });
  }

  #enqueue(kind: SnapshotKind): void {
    const models = snapshotModels(this.#options);
    this.#writing = this.#writing.then(() => this.#write(kind, models));
  }

  async #write(kind: SnapshotKind, models: Models): Promise<void> {
    const { folder, keep, values, warn } = this.#options;
    if (this.#off) return;
    const created = this.#options.now?.() ?? new Date();
    let part = folder;
    try {
      await mkdir(folder, { recursive: true });
      const names = await tidy(folder);
      const name = nextName(nameOfSnapshot(created, kind), names.at(-1));
      part = join(folder, `.${name}.part`);
      await writeFile(part, formatSnapshot({ name, created, values, models }), { mode: 0o600 });
      await chmod(part, 0o600);
      await rename(part, join(folder, name));
      const surplus = [...names, name].slice(0, -keep);
      await Promise.all(surplus.map((old) => rm(join(folder, old), { force: true })));
      this.#warned = false;
    } catch (error) {
      if (part !== folder) await rm(part, { force: true }).catch(() => undefined);
      const { code, message } = error as NodeJS.ErrnoException;
      this.#off = code === 'EROFS' || code === 'EACCES' || code === 'EPERM' || code === 'ENOTDIR' || code === 'EEXIST';
      if (!this.#warned) {
        const what = this.#off ? 'No snapshots are written' : 'A snapshot could not be written';
        warn(
          `${what}, so a restart will not know what was registered meanwhile: ${message}. --no-config-snapshots turns them off.`,
        );
      }
      this.#warned = true;
    }
  }
}

/** The snapshots of a folder, the newest last, after what a server that was killed while it wrote has left is gone. */
async function tidy(folder: string): Promise<string[]> {
  const names = await readdir(folder);
  const parts = names.filter((name) => /^\.\d{17}-\w+\.cfg\.part$/.test(name));
  await Promise.all(parts.map((name) => rm(join(folder, name), { force: true })));
  return names.filter((name) => snapshotName.test(name)).sort();
}

/** Names are the order, so each must come after the last, also when summer time ends or a clock is set back. */
function nextName(name: string, last: string | undefined): string {
  if (last === undefined || name.slice(0, 17) > last.slice(0, 17)) return name;
  return String(BigInt(last.slice(0, 17)) + 1n).padStart(17, '0') + name.slice(17);
}

/** Everything that serves, and the start-up models that could not be registered: they are not forgotten for it. */
function snapshotModels({ models, config }: SnapshotsOptions): Models {
  const found: Models = {};
  for (const model of models.models) {
    if (model.owner !== undefined) continue;
    (found[model.name] ??= {})[model.version] = describe(model, models.isDefault(model));
  }
  const served = new Set(Object.values(found).flatMap((versions) => Object.values(versions).map(({ marName }) => marName)));
  for (const { url } of models.startup.notRegistered) {
    const marName = marNameOf(url);
    if (served.has(marName)) continue;
    const named = config.loadModels === 'all' ? undefined : config.loadModels.find((entry) => entry.url === url)?.name;
    const name = named ?? basename(marName).replace(/\.(?:mar|model|tar\.gz|tgz|onnx|zip)$/i, '');
    const [version, settings] = Object.entries(config.models[name] ?? {}).find(
      ([, it]) => (it.marName ?? marName) === marName,
    ) ?? ['1.0', {}];
    (found[name] ??= {})[version] ??= {
      defaultVersion: settings.defaultVersion ?? true,
      marName,
      minWorkers: settings.minWorkers ?? 1,
      maxWorkers: settings.maxWorkers ?? settings.minWorkers ?? 1,
      batchSize: settings.batchSize ?? 1,
      maxBatchDelay: settings.maxBatchDelay ?? 100,
      responseTimeout: settings.responseTimeout ?? 120,
      startupTimeout: settings.startupTimeout ?? 120,
      runtimeType: settings.runtimeType ?? 'python',
      ...(settings.maxBatchDelay === undefined ? { batchRelease: 'adaptive' as const } : {}),
    };
  }
  return found;
}

function describe(model: ServedModel, defaultVersion: boolean): SnapshotModel {
  const { settings, pool, archive, givenHandler } = model;
  return {
    defaultVersion,
    marName: marNameOf(archive.url ?? ''),
    minWorkers: pool.min,
    maxWorkers: pool.max,
    batchSize: settings.batchSize,
    maxBatchDelay: settings.maxBatchDelay,
    responseTimeout: settings.responseTimeout,
    startupTimeout: settings.startupTimeout,
    runtimeType: archive.runtime,
    ...(settings.delayIsExplicit ? {} : { batchRelease: 'adaptive' as const }),
    ...(givenHandler === undefined ? {} : { handler: givenHandler }),
  };
}

/** What was downloaded lies in the store under the last part of its url. */
function marNameOf(url: string): string {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(url) || !URL.canParse(url)) return url;
  const name = new URL(url).pathname.split('/').at(-1) ?? '';
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
