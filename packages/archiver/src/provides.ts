/** `MAR-INF/onnxserve.json`: what a bundled handler expects the server to bring. */
export interface Expectations {
  /** Version ranges by package. */
  readonly runtimeProvides: Readonly<Record<string, string>>;
  /** Version range of the handler kit. */
  readonly handlerKit: string | undefined;
}

export const expectationsFile = 'onnxserve.json';

/** Packages that the server brings; they are never bundled into a handler. */
export const providedPackages = ['sharp', '@napi-rs/image', 'tokenizers', 'onnxruntime-node'] as const;
export const kitPackage = '@onnxserve/handler-kit';

/** Reads the file; fields that it does not know are left for later versions. Undefined when it is no such file. */
export function parseExpectations(text: string): Expectations | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch {
    return undefined;
  }
  if (typeof json !== 'object' || json === null) return undefined;
  const { runtimeProvides, handlerKit } = json as { runtimeProvides?: unknown; handlerKit?: unknown };
  const ranges: Record<string, string> = {};
  for (const [name, range] of Object.entries(typeof runtimeProvides === 'object' && runtimeProvides ? runtimeProvides : {})) {
    if (typeof range === 'string') ranges[name] = range;
  }
  return { runtimeProvides: ranges, handlerKit: typeof handlerKit === 'string' ? handlerKit : undefined };
}

/** The range that a handler built against `version` works with: the same major, below 1.0 the same minor. */
export function rangeOf(version: string): string {
  return `^${version}`;
}

/** Whether a version satisfies an exact version, `^x.y.z` or `*`. Pre-release tags are ignored. */
export function satisfies(version: string, range: string): boolean {
  const wanted = numbers(range.replace(/^\^/, ''));
  const got = numbers(version);
  if (range === '*') return true;
  if (wanted === undefined || got === undefined) return version === range;
  if (!range.startsWith('^')) return wanted.every((part, at) => part === got[at]);
  // The leftmost part that is not zero must be equal, the rest at least as high.
  const fixed = wanted.findIndex((part) => part > 0);
  const until = fixed === -1 ? wanted.length - 1 : fixed;
  for (let at = 0; at <= until; at++) if (wanted[at] !== got[at]) return false;
  for (let at = until + 1; at < wanted.length; at++) {
    if (got[at]! !== wanted[at]!) return got[at]! > wanted[at]!;
  }
  return true;
}

function numbers(version: string): [number, number, number] | undefined {
  const match = /^(\d+)\.(\d+)\.(\d+)/.exec(version);
  return match ? [Number(match[1]), Number(match[2]), Number(match[3])] : undefined;
}
