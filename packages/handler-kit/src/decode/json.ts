import { randomUUID } from 'node:crypto';
import { PredictionError } from '../errors.js';
import type { SchemaIssue, StandardSchema } from '../request.js';

/** Levels of arrays and objects that a body may nest. Recursive consumers need a bound. */
export const maxJsonDepth = 512;
const maxIssues = 10;

/**
 * @param exact true: integers that a number cannot hold exactly become BigInts
 * @throws {PredictionError} 400 with line and column of what is wrong
 */
export function parseJson(text: string, exact = false): unknown {
  if (text.trim() === '') throw new PredictionError('the body is empty, JSON is expected', 400);
  checkDepth(text);
  try {
    return exact && longInteger.test(text) ? parseExact(text) : (JSON.parse(text) as unknown);
  } catch {
    const at = firstError(text);
    const before = text.slice(0, at);
    const line = before.split('\n').length;
    const column = at - before.lastIndexOf('\n');
    const found = at < text.length ? JSON.stringify(String.fromCodePoint(text.codePointAt(at)!)) : 'end of the body';
    throw new PredictionError(
      `the body is not valid JSON: unexpected ${found} at position ${at} (line ${line}, column ${column})`,
      400,
    );
  }
}

/** @throws {PredictionError} 400 naming the path of each value that the schema refuses */
export async function validate<Output>(value: unknown, schema: StandardSchema<Output>): Promise<Output> {
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return result.value;
  const shown = result.issues.slice(0, maxIssues).map((issue) => `${pathOf(issue)}: ${issue.message}`);
  const more = result.issues.length - shown.length;
  throw new PredictionError(`the body does not match: ${shown.join('; ')}${more > 0 ? `; and ${more} more` : ''}`, 400);
}

/** Digits enough that a number may not be exact. Most bodies have none and take the short way. */
const longInteger = /\d{16}/;
const stringOrNumber = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** Marks an integer that goes through the parser as text; no client can know it. */
const mark = `\u0001${randomUUID()}:`;

function parseExact(text: string): unknown {
  // What is no JSON must fail here, before anything is replaced in it.
  JSON.parse(text);
  const marked = text.replaceAll(stringOrNumber, (token) =>
    /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? JSON.stringify(`${mark}${token}`) : token,
  );
  return JSON.parse(marked, (_key, value: unknown) =>
    typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  ) as unknown;
}

function pathOf(issue: SchemaIssue): string {
  let text = '';
  for (const step of issue.path ?? []) {
    const key = typeof step === 'object' ? step.key : step;
    if (typeof key === 'number') text += `[${key}]`;
    else text += text === '' ? String(key) : `.${String(key)}`;
  }
  return text === '' ? 'body' : text;
}

function checkDepth(text: string): void {
  // Most bodies are shallow and few brackets say so at once.
  if (occurrences(text, '[') + occurrences(text, '{') <= maxJsonDepth) return;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = endOfString(text, at);
        if (at === -1) return;
        break;
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > maxJsonDepth) {
          throw new PredictionError(
            `the body nests arrays and objects deeper than ${maxJsonDepth} levels, the limit for JSON`,
            400,
          );
        }
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
        break;
      default:
    }
  }
}

/** Counts up to one more than the limit. */
function occurrences(text: string, char: string): number {
  let count = 0;
  for (let at = text.indexOf(char); at !== -1 && count <= maxJsonDepth; at = text.indexOf(char, at + 1)) count++;
  return count;
}

/** Index of the quote that ends the string which starts at `start`; -1 when none does. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return end;
  }
  return -1;
}

const space = /[ \t\n\r]*/y;
const scalar = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// eslint-disable-next-line no-control-regex
const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
// eslint-disable-next-line no-control-regex
const brokenString = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/y;

/** Where JSON stops being valid. The parser's own message does not always say. */
function firstError(text: string): number {
  const open: string[] = [];
  let at = 0;
  let wanted: 'value' | 'value or ]' | 'key' | 'key or }' | 'after' = 'value';
  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  };
  for (;;) {
    take(space);
    const char = text[at];
    if (wanted === 'after') {
      const top = open.at(-1);
      if (char === ',' && top !== undefined) wanted = top === '[' ? 'value' : 'key';
      else if ((char === ']' && top === '[') || (char === '}' && top === '{')) open.pop();
      else return at;
      at++;
    } else if ((wanted === 'value or ]' && char === ']') || (wanted === 'key or }' && char === '}')) {
      open.pop();
      wanted = 'after';
      at++;
    } else if (wanted === 'key' || wanted === 'key or }') {
      if (!take(string)) {
        take(brokenString);
        return at;
      }
      take(space);
      if (text[at] !== ':') return at;
      at++;
      wanted = 'value';
    } else if (char === '[' || char === '{') {
      open.push(char);
      wanted = char === '[' ? 'value or ]' : 'key or }';
      at++;
    } else if (take(string) || take(scalar)) {
      wanted = 'after';
    } else {
      take(brokenString);
      return at;
    }
  }
}
