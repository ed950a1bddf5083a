import { isMap, isPair, isScalar, LineCounter, parseDocument, type YAMLMap } from 'yaml';

/** One entry of a mapping: its value as plain data, its line, and, when it is a mapping, its own entries. */
export interface Entry {
  readonly key: string;
  readonly value: unknown;
  /** 1-based. */
  readonly line: number;
  /** Undefined when the value is no mapping. */
  readonly section: Section | undefined;
}

export interface Section {
  readonly line: number;
  /** In file order; a repeated key stands once, with its last value. */
  readonly entries: readonly Entry[];
  readonly repeated: ReadonlyArray<{ readonly key: string; readonly line: number }>;
}

export type YamlResult =
  | { readonly ok: true; readonly section: Section }
  | { readonly ok: false; readonly line: number | undefined; readonly message: string };

/**
 * Reads a YAML mapping as YAML 1.1, which TorchServe's and Python's readers speak: `yes` is true, `<<` merges. Dates stay text.
 * An empty document is an empty mapping.
 */
export function parseYamlSection(text: string): YamlResult {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    version: '1.1',
    uniqueKeys: false,
    lineCounter: lines,
    prettyErrors: false,
    customTags: (tags) => tags.filter((tag) => typeof tag === 'string' || tag.tag !== 'tag:yaml.org,2002:timestamp'),
  });
  const lineAt = (offset: number | undefined) => (offset === undefined ? 1 : lines.linePos(offset).line);
  const error = document.errors[0];
  if (error) return { ok: false, line: lineAt(error.pos[0]), message: error.message };
  const root = document.contents;
  if (root === null || (isScalar(root) && root.value === null))
    return { ok: true, section: { line: 1, entries: [], repeated: [] } };
  if (!isMap(root)) return { ok: false, line: lineAt(root.range?.[0]), message: 'the file must be a mapping of keys to values' };
  try {
    const data: unknown = document.toJS({ maxAliasCount: 100 });
    if (containsItself(data)) return { ok: false, line: undefined, message: 'an alias stands inside of what it repeats' };
    return { ok: true, section: toSection(root, data as Record<string, unknown>, lineAt) };
  } catch (thrown) {
    return { ok: false, line: undefined, message: (thrown as Error).message };
  }
}

function containsItself(data: unknown): boolean {
  try {
    JSON.stringify(data);
    return false;
  } catch {
    return true;
  }
}

function toSection(map: YAMLMap, data: Record<string, unknown>, lineAt: (offset: number | undefined) => number): Section {
  const line = lineAt(map.range?.[0]);
  const nodes = new Map<string, { line: number; node: unknown }>();
  const repeated: Array<{ key: string; line: number }> = [];
  for (const pair of map.items) {
    if (!isPair(pair) || !isScalar(pair.key)) continue;
    const key = String(pair.key.value);
    const at = { line: lineAt(pair.key.range?.[0]), node: pair.value };
    if (nodes.has(key) && key !== '<<') repeated.push({ key, line: at.line });
    nodes.set(key, at);
  }
  // The data decides what is there, since it also has what merges brought in.
  const entries = Object.entries(data).map(([key, value]): Entry => {
    const at = nodes.get(key);
    const isSection = typeof value === 'object' && value !== null && !Array.isArray(value);
    const keyLine = at?.line ?? line;
    const section = isSection
      ? isMap(at?.node)
        ? toSection(at.node, value as Record<string, unknown>, lineAt)
        : plainSection(value as Record<string, unknown>, keyLine)
      : undefined;
    return { key, value, line: keyLine, section };
  });
  return { line, entries, repeated };
}

/** A mapping that came by alias or merge: its entries have the line of what brought it. */
function plainSection(data: Record<string, unknown>, line: number): Section {
  const entries = Object.entries(data).map(([key, value]): Entry => {
    const isSection = typeof value === 'object' && value !== null && !Array.isArray(value);
    return { key, value, line, section: isSection ? plainSection(value as Record<string, unknown>, line) : undefined };
  });
  return { line, entries, repeated: [] };
}
