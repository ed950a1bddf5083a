/** One version of a model as a snapshot holds it; TorchServe's keys, and ours after them. */
export interface SnapshotModel {
  readonly defaultVersion: boolean;
  readonly marName: string;
  readonly minWorkers: number;
  readonly maxWorkers: number;
  readonly batchSize: number;
  readonly maxBatchDelay: number;
  readonly responseTimeout: number;
  readonly startupTimeout: number;
  readonly runtimeType: string;
  /** `adaptive`: nobody set maxBatchDelay, so a restored model must not wait for it. */
  readonly batchRelease?: 'adaptive';
  /** Given at registration, in the place of the archive's own. */
  readonly handler?: string;
}

export interface Snapshot {
  /** `20261130094932875-startup.cfg` */
  readonly name: string;
  readonly created: Date;
  /** Keys of config.properties that somebody set. */
  readonly values: ReadonlyMap<string, string>;
  readonly models: Readonly<Record<string, Readonly<Record<string, SnapshotModel>>>>;
}

export type SnapshotKind = 'startup' | 'snapshot' | 'shutdown';

/** Matches the files that TorchServe writes, and so do we. */
export const snapshotName = /^\d{17}-(?:startup|snapshot|shutdown)\.cfg$/;

/** `yyyyMMddHHmmssSSS-kind.cfg` in local time. */
export function nameOfSnapshot(at: Date, kind: SnapshotKind): string {
  const pad = (value: number, digits = 2) => String(value).padStart(digits, '0');
  const day = `${pad(at.getFullYear(), 4)}${pad(at.getMonth() + 1)}${pad(at.getDate())}`;
  return `${day}${pad(at.getHours())}${pad(at.getMinutes())}${pad(at.getSeconds())}${pad(at.getMilliseconds(), 3)}-${kind}.cfg`;
}

/** A snapshot as a properties file, as `java.util.Properties` writes it. */
export function formatSnapshot({ name, created, values, models }: Snapshot): string {
  const modelCount = Object.values(models).reduce((sum, versions) => sum + Object.keys(versions).length, 0);
  const snapshot = JSON.stringify({ name, modelCount, created: created.getTime(), models }, undefined, 2);
  const lines = [...values, ['model_snapshot', snapshot] as const].map(
    ([key, text]) => `${escaped(key, true)}=${escaped(text, false)}`,
  );
  return `#Saving snapshot\n#${created.toUTCString()}\n${lines.join('\n')}\n`;
}

function escaped(text: string, isKey: boolean): string {
  return text
    .replaceAll(/[\\:=#!]/g, String.raw`\$&`)
    .replaceAll('\n', String.raw`\n`)
    .replaceAll('\r', String.raw`\r`)
    .replaceAll('\t', String.raw`\t`)
    .replaceAll(isKey ? / /g : /^ /g, String.raw`\ `)
    .replaceAll(/[^\u0020-\u007e]/g, (char) => String.raw`\u` + char.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase());
}
