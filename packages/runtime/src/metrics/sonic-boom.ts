import { createRequire } from 'node:module';
import type * as types from 'sonic-boom';

// A CommonJS package whose one export is the class; its types promise a named export that Node does not see.
export const SonicBoom = createRequire(import.meta.url)('sonic-boom') as typeof types.SonicBoom;
export type SonicBoom = types.SonicBoom;
