import { expect, it } from 'vitest';
import { pythonLines } from './python-lines.js';
import { outlinePython } from './python-outline.js';

const texts = (source: string) => pythonLines(source).lines.map(({ text }) => text);

it('joins continued lines and leaves comments and strings out', () => {
  const source = [
    'x = "class A:  # no comment" # a comment',
    'y = (1,  # def f():',
    '     2)',
    'z = 1 + \\',
    '    2; w = 3',
    '"""class B:',
    'def g(): pass',
    '"""',
    "t = r'\\'' + rb\"\\\"\" + 'it''s'",
  ].join('\n');
  const { lines, strings } = pythonLines(source);
  expect(lines.map(({ text }) => text.replaceAll(/\s+/g, ' '))).toEqual([
    'x = "0"',
    'y = (1, 2)',
    'z = 1 + 2',
    'w = 3',
    '"1"',
    't = "2" + "3" + "4""5"',
  ]);
  expect(lines.map(({ line }) => line)).toEqual([1, 2, 4, 5, 6, 9]);
  expect(strings).toEqual(['class A:  # no comment', 'class B:\ndef g(): pass\n', "\\'", '\\"', 'it', 's']);
});

it('knows where format strings end', () => {
  expect(texts(`a = f"{x["k"]} {y!r:'>10} {{"; import os`)).toEqual(['a = "0"', 'import os']);
  expect(texts(`a = f'{d["#"]:{w}.{p}f}'  # "`)).toEqual(['a = "0"']);
  expect(texts(`a = f"""{f'{b:"^3}'}\n# no comment"""\nimport os`)).toEqual(['a = "0"', 'import os']);
  expect(texts('rf = "x"\nbuf"y"')).toEqual(['rf = "0"', 'buf"1"']);
});

it('survives what is no Python', () => {
  for (const source of ['"', "'''", 'f"{', 'f"{a:', '((((', '}}}\nimport os', '\\', '#', '\0\u0001', 'f"{{{"'])
    expect(() => outlinePython(source)).not.toThrow();
  expect(outlinePython('x = "open\nimport os').imports).toMatchObject([{ module: 'os' }]);
});

it('finds imports wherever they stand', () => {
  const { imports } = outlinePython(
    [
      'import os, numpy as np',
      'from ts.torch_handler.base_handler import BaseHandler',
      'from . import helper',
      'from ..pkg.mod import (',
      '    a as b,  # why',
      '    c,',
      ')',
      'try: import cv2',
      'except ImportError: pass',
      'def f():',
      '    import torch.nn as nn',
      '    yield from g()',
      '    raise E from e',
    ].join('\r\n'),
  );
  expect(imports.map(({ module, names, line }) => [module, names.join(' '), line])).toEqual([
    ['os', '', 1],
    ['numpy', '', 1],
    ['ts.torch_handler.base_handler', 'BaseHandler', 2],
    ['.', 'helper', 3],
    ['..pkg.mod', 'a c', 4],
    ['cv2', '', 8],
    ['torch.nn', '', 11],
  ]);
});

it('finds classes with their own methods, and functions', () => {
  const { classes, functions } = outlinePython(
    [
      'class Net(nn.Module, Generic[T, U], metaclass=M):',
      '    def forward(self, x):',
      '        def inner(): pass',
      '        class Local:',
      '            def hidden(self): pass',
      '        return x',
      '',
      '    @property',
      '    async def size(self): return 1',
      '# a comment at the left edge',
      '    def late(self):',
      '      pass',
      'if True:',
      '    class Guarded: pass',
      'else:',
      '\tdef fallback(): pass',
      'def handle(data, context): return data',
      'class Typed[T](Base): x = 1',
    ].join('\n'),
  );
  expect(classes.map(({ name, bases, methods }) => [name, bases, methods.map((it) => it.name)])).toEqual([
    ['Net', ['nn.Module', 'Generic[T, U]'], ['forward', 'size', 'late']],
    ['Guarded', [], []],
    ['Typed', ['Base'], []],
  ]);
  expect(functions.map(({ name, line }) => [name, line])).toEqual([
    ['fallback', 16],
    ['handle', 17],
  ]);
});
