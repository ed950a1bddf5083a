import { describe, expect, it } from 'vitest';
import { LineSplitter } from './lines.js';

function split(...chunks: Array<string | Buffer>): string[] {
  const lines: string[] = [];
  const splitter = new LineSplitter((line) => lines.push(line));
  for (const chunk of chunks) splitter.push(Buffer.from(chunk as string));
  splitter.end();
  splitter.end();
  return lines;
}

describe('lines', () => {
  it.each<[string, Array<string | Buffer>, string[]]>([
    ['whole ones', ['a\nb\n'], ['a', 'b']],
    ['a last one without its end', ['a\nb'], ['a', 'b']],
    ['pieces of one', ['a', 'b', '\nc\n'], ['ab', 'c']],
    ['the ends of Windows', ['a\r\nb\r\n'], ['a', 'b']],
    ['empty ones', ['\n\na\n'], ['', '', 'a']],
    ['nothing', [], []],
    ['a character cut in two', [Buffer.from([0xc3]), Buffer.from([0xa9, 10])], ['é']],
    ['binary', [Buffer.from([0xff, 0, 10])], ['\ufffd\u0000']],
  ])('%s', (_, chunks, lines) => {
    expect(split(...chunks)).toEqual(lines);
  });

  it('cuts what never ends into pieces, and loses nothing', () => {
    const chunk = 'x'.repeat(50_000);
    const lines = split(...Array.from({ length: 20 }, () => chunk), '\nend');
    expect(lines.slice(0, -1).every(({ length }) => length <= 65_536)).toBe(true);
    expect(lines.slice(0, -1).join('')).toBe(chunk.repeat(20));
    expect(lines.at(-1)).toBe('end');
  });
});
