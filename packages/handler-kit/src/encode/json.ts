/** Deeper values are taken for cyclic; recursion needs a bound anyway. */
const maxDepth = 1000;

/**
 * Compact JSON. A superset of `JSON.stringify`:
 * - a BigInt becomes its exact digits, in safe range or not; as a key of a Map its digits as text
 * - typed arrays become arrays of numbers, `Map` an object, `Set` an array
 * - NaN and infinities become `null`, since JSON has no word for them
 *
 * @returns undefined for undefined
 * @throws {TypeError} naming the path of a function, a symbol or a cycle
 */
export function stringify(value: unknown): string | undefined {
  return write(value, [], new Set());
}

type Path = Array<string | number>;

function write(value: unknown, path: Path, parents: Set<object>): string | undefined {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      return Number.isFinite(value) ? `${value === 0 ? 0 : value}` : 'null';
    case 'boolean':
      return value ? 'true' : 'false';
    case 'bigint':
      return value.toString();
    case 'undefined':
      return undefined;
    case 'function':
    case 'symbol':
      throw new TypeError(`${where(path)} is a ${typeof value}, which JSON cannot hold`);
    case 'object':
      return value === null ? 'null' : writeObject(value, path, parents);
    default:
      throw new TypeError(`${where(path)} cannot be written as JSON`);
  }
}

function writeObject(value: object, path: Path, parents: Set<object>): string | undefined {
  if (ArrayBuffer.isView(value)) return writeView(value);
  const toJson = (value as { toJSON?: unknown }).toJSON;
  if (typeof toJson === 'function') {
    const replaced: unknown = toJson.call(value, String(path.at(-1) ?? ''));
    if (replaced !== value) return write(replaced, path, parents);
  }
  if (parents.has(value)) throw new TypeError(`${where(path)} refers to one of its own parents, which JSON cannot hold`);
  if (parents.size >= maxDepth) throw new TypeError(`the value nests deeper than ${maxDepth} levels, which JSON readers refuse`);
  parents.add(value);
  let text: string;
  if (Array.isArray(value)) text = writeArray(value, path, parents);
  else if (value instanceof Set) text = writeArray([...value], path, parents);
  else text = writeEntries(value instanceof Map ? value : Object.entries(value), path, parents);
  parents.delete(value);
  return text;
}

function writeArray(items: readonly unknown[], path: Path, parents: Set<object>): string {
  if (items.length > 0 && items.every((item) => typeof item === 'number' && Number.isFinite(item))) return `[${items.join(',')}]`;
  const depth = path.length;
  let text = '[';
  for (let index = 0; index < items.length; index++) {
    path[depth] = index;
    text += `${index === 0 ? '' : ','}${write(items[index], path, parents) ?? 'null'}`;
  }
  path.length = depth;
  return `${text}]`;
}

function writeEntries(entries: Iterable<[unknown, unknown]>, path: Path, parents: Set<object>): string {
  const depth = path.length;
  let text = '{';
  for (const [key, item] of entries) {
    const name = keyOf(key, path);
    path[depth] = name;
    const written = write(item, path, parents);
    if (written !== undefined) text += `${text.length === 1 ? '' : ','}${JSON.stringify(name)}:${written}`;
  }
  path.length = depth;
  return `${text}}`;
}

function keyOf(key: unknown, path: Path): string {
  if (typeof key === 'string') return key;
  if (typeof key === 'number' || typeof key === 'bigint' || typeof key === 'boolean') return String(key);
  throw new TypeError(`${where(path)} is a Map with a key that is neither text nor a number`);
}

function writeView(view: ArrayBufferView): string {
  if (view instanceof DataView) return writeView(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  const numbers = view as unknown as {
    readonly length: number;
    readonly [index: number]: number | bigint;
    join(separator: string): string;
  };
  if (view instanceof Float32Array || view instanceof Float64Array) {
    for (let at = 0; at < view.length; at++) {
      if (!Number.isFinite(view[at]!))
        return `[${Array.from(view, (item) => (Number.isFinite(item) ? item : 'null')).join(',')}]`;
    }
  }
  return `[${numbers.join(',')}]`;
}

function where(path: Path): string {
  if (path.length === 0) return 'the value';
  return path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('');
}
