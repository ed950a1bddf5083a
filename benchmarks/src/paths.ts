import { join, resolve } from 'node:path';

/** The repository. */
export const root = resolve(import.meta.dirname, '../../..');
export const command = join(root, 'packages/runtime/bin/onnxserve.js');
