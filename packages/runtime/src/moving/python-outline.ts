import { pythonLines } from './python-lines.js';

export interface PythonImport {
  /** As written, with its leading dots. */
  readonly module: string;
  /** What `from module import` takes; empty for a plain import. */
  readonly names: readonly string[];
  readonly line: number;
}

export interface PythonFunction {
  readonly name: string;
  readonly line: number;
}

export interface PythonClass {
  readonly name: string;
  readonly line: number;
  /** As written: `BaseHandler`, `nn.Module`. */
  readonly bases: readonly string[];
  readonly methods: readonly PythonFunction[];
}

/** What a Python file defines and imports, as far as it shows without running it. */
export interface PythonOutline {
  readonly imports: readonly PythonImport[];
  /** At the top of the file or inside `if` and `try` there. */
  readonly classes: readonly PythonClass[];
  readonly functions: readonly PythonFunction[];
  /** The code as one text for searches, strings replaced by `"N"`. */
  readonly code: string;
  readonly strings: readonly string[];
}

interface Block {
  readonly kind: 'class' | 'function' | 'other';
  readonly indent: number;
  readonly methods: PythonFunction[];
}

export function outlinePython(source: string): PythonOutline {
  const { lines, strings } = pythonLines(source);
  const imports: PythonImport[] = [];
  const classes: PythonClass[] = [];
  const functions: PythonFunction[] = [];
  let blocks: Block[] = [];
  for (const { indent, line, text } of lines) {
    blocks = blocks.filter((block) => block.indent < indent);
    const owner = blocks.filter(({ kind }) => kind !== 'other').at(-1);
    const begun = /^class\s+(\w+)\s*(.*)$/.exec(text);
    const defined = /^(?:async\s+)?def\s+(\w+)\s*[([]/.exec(text);
    if (begun) {
      const methods: PythonFunction[] = [];
      if (owner === undefined) classes.push({ name: begun[1]!, line, bases: basesOf(begun[2]!), methods });
      blocks.push({ kind: 'class', indent, methods });
    } else if (defined) {
      const found = { name: defined[1]!, line };
      if (owner === undefined) functions.push(found);
      else if (owner.kind === 'class') owner.methods.push(found);
      blocks.push({ kind: 'function', indent, methods: [] });
    } else {
      imports.push(...importsOf(text, line));
      if (text.endsWith(':')) blocks.push({ kind: 'other', indent, methods: [] });
    }
  }
  return { imports, classes, functions, code: lines.map(({ text }) => text).join('\n'), strings };
}

/** `(A, b.C, metaclass=D):` */
function basesOf(text: string): string[] {
  const inside = /^(?:\[[^\]]*\])?\s*\((.*)\)\s*:/.exec(text)?.[1] ?? '';
  return splitTop(inside).filter((part) => part !== '' && !/^\w+\s*=[^=]/.test(part));
}

function importsOf(text: string, line: number): PythonImport[] {
  // One line may hold a statement and what it guards: `try: import x`.
  const statement = /(?:^|:\s*)((?:import|from)\s.*)$/.exec(text)?.[1];
  if (statement === undefined) return [];
  const from = /^from\s+(\.*\s*[\w.]*)\s+import\s+\(?(.*?)\)?$/.exec(statement);
  if (from)
    return [{ module: from[1]!.replaceAll(/\s/g, ''), names: splitTop(from[2]!).map(withoutAlias).filter(Boolean), line }];
  const plain = /^import\s+(.+)$/.exec(statement)?.[1];
  return plain === undefined ? [] : splitTop(plain).map((part) => ({ module: withoutAlias(part), names: [], line }));
}

function withoutAlias(text: string): string {
  return text.replace(/\s+as\s+\w+$/, '').trim();
}

/** Parts between commas that stand in no brackets. */
function splitTop(text: string): string[] {
  const parts = [''];
  let depth = 0;
  for (const char of text) {
    if ('([{'.includes(char)) depth++;
    else if (')]}'.includes(char)) depth--;
    if (char === ',' && depth === 0) parts.push('');
    else parts[parts.length - 1] += char;
  }
  return parts.map((part) => part.trim());
}
