#!/usr/bin/env node
// Checks what the linter does not know: arrows between rooms point downward only, the front never imports the engine, files stay small.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const root = resolve(dirname(new URL(import.meta.url).pathname), '..');
const runtime = join(root, 'packages/runtime/src');
// A room may import rooms of its own or a lower level.
const levels = [
  ['domain'],
  ['config'],
  ['registry', 'admission', 'protocol'],
  ['ipc'],
  ['batching'],
  ['workers', 'worker'],
  ['serving'],
  ['metrics', 'listeners'],
  ['server', 'moving'],
  ['cli', 'doctor', 'tune', 'console', 'jobs'],
];
const levelOf = new Map(levels.flatMap((rooms, level) => rooms.map((room) => [room, level])));
// The only room that may load a model or a handler.
const engineRoom = 'worker';
const maxLines = 450;
const problems = [];

function files(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) return files(path);
    return name.endsWith('.ts') && !/\.(test|test-d|d)\.ts$/.test(name) ? [path] : [];
  });
}

for (const folder of ['packages/runtime/src', 'packages/handler-kit/src', 'packages/archiver/src']) {
  for (const file of files(join(root, folder))) {
    const text = readFileSync(file, 'utf8');
    const shown = relative(root, file);
    const lines = text.split('\n').length;
    if (lines > maxLines) problems.push(`${shown}: ${lines} lines, the limit is ${maxLines}`);
    if (!file.startsWith(runtime)) continue;
    const parts = relative(runtime, file).split('/');
    const room = parts.length === 1 ? parts[0].replace(/\.ts$/, '') : parts[0];
    for (const match of text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)) {
      const target = match[1];
      if (/^onnxruntime-node|^koffi/.test(target) && room !== engineRoom)
        problems.push(`${shown}: only ${engineRoom}/ may import ${target}`);
      if (!target.startsWith('.')) continue;
      const to = relative(runtime, resolve(dirname(file), target)).split('/');
      const other = to.length === 1 ? to[0].replace(/\.js$/, '') : to[0];
      if (other === room) continue;
      const from = levelOf.get(room);
      const at = levelOf.get(other);
      if (from === undefined || at === undefined) {
        if (room !== 'index') problems.push(`${shown}: ${room} or ${other} has no level in scripts/check-structure.mjs`);
      } else if (at >= from) problems.push(`${shown}: ${room} must not import ${other} (${target})`);
    }
  }
}
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
