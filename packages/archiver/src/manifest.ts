/** What `runtime` may be; the Python names stand in archives that come from TorchServe. */
export const runtimes = ['node', 'python', 'python3', 'LSP'] as const;

/** `MAR-INF/MANIFEST.json` of an archive. */
export interface Manifest {
  readonly createdOn?: string;
  readonly archiverVersion?: string;
  /** `python` when the file does not say, as in TorchServe. */
  readonly runtime: string;
  readonly model: {
    /** Undefined: whoever registers must give a name. */
    readonly modelName?: string;
    /** `1.0` when the file does not say. */
    readonly modelVersion: string;
    readonly handler?: string;
    readonly serializedFile?: string;
    readonly modelFile?: string;
    readonly configFile?: string;
    readonly requirementsFile?: string;
    readonly description?: string;
    /** Kept, but without meaning to this server. */
    readonly envelope?: string;
  };
}

/** A manifest that cannot be used. The message names the field. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
  /** Path in the file, such as `model.modelVersion`; empty for the file as a whole. */
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/**
 * Reads a manifest. A byte order mark and any line ends are tolerated, numbers are taken as strings.
 * @throws {ManifestError}
 */
export function parseManifest(text: string): Manifest {
  let json: unknown;
  try {
    json = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw new ManifestError('', `not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!isObject(json)) throw new ManifestError('', `must hold a JSON object, not ${kindOf(json)}`);
  const model = json['model'];
  if (model === undefined || model === null) throw new ManifestError('model', 'there is no field "model"');
  if (!isObject(model)) throw new ManifestError('model', `field "model" must be an object, not ${kindOf(model)}`);
  const runtime = scalar(json, 'runtime', '') ?? 'python';
  if (!(runtimes as readonly string[]).includes(runtime)) {
    throw new ManifestError('runtime', `field "runtime" is "${runtime}"; it may be ${runtimes.join(', ')}`);
  }
  const field = (name: string) => scalar(model, name, 'model.');
  return {
    createdOn: scalar(json, 'createdOn', ''),
    archiverVersion: scalar(json, 'archiverVersion', ''),
    runtime,
    model: {
      modelName: field('modelName'),
      modelVersion: field('modelVersion') ?? '1.0',
      handler: field('handler'),
      serializedFile: field('serializedFile'),
      modelFile: field('modelFile'),
      configFile: field('configFile'),
      requirementsFile: field('requirementsFile'),
      description: field('description'),
      envelope: field('envelope'),
    },
  };
}

/** The file's text, with the fields in the order in which TorchServe's archiver writes them. */
export function formatManifest(manifest: Manifest): string {
  const { model } = manifest;
  const ordered = {
    createdOn: manifest.createdOn,
    runtime: manifest.runtime,
    model: {
      modelName: model.modelName,
      serializedFile: model.serializedFile,
      handler: model.handler,
      modelFile: model.modelFile,
      modelVersion: model.modelVersion,
      requirementsFile: model.requirementsFile,
      configFile: model.configFile,
      description: model.description,
    },
    archiverVersion: manifest.archiverVersion,
  };
  return `${JSON.stringify(ordered, undefined, 2)}\n`;
}

/** `dd/mm/yyyy HH:MM:SS` in local time, TorchServe's form. */
export function formatCreatedOn(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${two(date.getDate())}/${two(date.getMonth() + 1)}/${date.getFullYear()}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** A string field; numbers count as their text, an empty string or null as absent. */
function scalar(from: Record<string, unknown>, name: string, prefix: string): string | undefined {
  const value = from[name];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  throw new ManifestError(prefix + name, `field "${prefix}${name}" must be a string, not ${kindOf(value)}`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`;
}
