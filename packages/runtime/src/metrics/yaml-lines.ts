import { type Document, isAlias, isMap, isPair, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml';

/** Keys and indices from the root to a value. */
export type Place = ReadonlyArray<string | number>;

/** A YAML text as plain values, that knows in which line each of them stands. */
export class YamlLines {
  /** Undefined for an empty text and for one with errors. */
  readonly value: unknown;
  readonly errors: ReadonlyArray<{ readonly line: number | undefined; readonly message: string }>;
  readonly #document: Document;
  readonly #counter = new LineCounter();

  constructor(text: string) {
    this.#document = parseDocument(text, { lineCounter: this.#counter, merge: true, prettyErrors: false });
    const lineAt = (offset: number | undefined) => (offset === undefined ? undefined : this.#counter.linePos(offset).line);
    const errors = this.#document.errors.map((error) => ({ line: lineAt(error.pos[0]), message: error.message }));
    visit(this.#document, {
      Alias: (_key, alias) => {
        if (alias.resolve(this.#document) === undefined)
          errors.push({ line: lineAt(alias.range?.[0]), message: `there is no anchor &${alias.source} before *${alias.source}` });
      },
    });
    let value: unknown;
    if (errors.length === 0) {
      try {
        // Bounds what aliases of aliases may grow to.
        value = this.#document.toJS({ maxAliasCount: 1000 }) as unknown;
      } catch (error) {
        errors.push({ line: 1, message: (error as Error).message });
      }
    }
    this.value = value;
    this.errors = errors;
  }

  /** The line of what is at that place, or of the nearest thing around it that exists; counted from 1. */
  lineOf(place: Place): number | undefined {
    let node: unknown = this.#document.contents;
    let line = this.#line(node);
    for (const part of place) {
      node = isAlias(node) ? node.resolve(this.#document) : node;
      let next: unknown;
      let at: unknown;
      if (isMap(node)) {
        const pair = node.items.find((item) => isPair(item) && isScalar(item.key) && item.key.value === part);
        next = pair?.value;
        at = pair?.key;
      } else if (isSeq(node) && typeof part === 'number') {
        next = node.items[part];
        at = next;
      }
      if (at === undefined) return line;
      line = this.#line(at) ?? line;
      node = next;
    }
    return line;
  }

  #line(node: unknown): number | undefined {
    const start = (node as Node | null | undefined)?.range?.[0];
    return start === undefined ? undefined : this.#counter.linePos(start).line;
  }
}
