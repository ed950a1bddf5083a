import { open, readFile, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type Entry, openPromise } from 'yauzl';
import { ServeError } from '../domain/errors.js';
import { pickleGlobals } from './pickle-globals.js';

/** What a model file is, by its content where that tells, else by its ending. */
export type Weights =
  | { readonly kind: 'onnx' | 'torchscript' | 'exported-program' | 'safetensors' | 'compiled' }
  | { readonly kind: 'state-dict' }
  /** A whole module, pickled; classes of the module that are not PyTorch's own, as `package.Class`. */
  | { readonly kind: 'pickled-module'; readonly classes: readonly string[] }
  | { readonly kind: 'other'; readonly what: string };

const otherEndings: Readonly<Record<string, string>> = {
  '.h5': 'a Keras model',
  '.keras': 'a Keras model',
  '.pb': 'a TensorFlow graph',
  '.tflite': 'a TensorFlow Lite model',
  '.joblib': 'a pickle of scikit-learn',
  '.gguf': 'weights of a language model for llama.cpp',
};
const compiledEndings = new Set(['.so', '.engine', '.plan', '.trt', '.ptl']);
const largestPickle = 16 << 20;

/**
 * Looks at a model file without loading it: pickles are searched for names, never run.
 * @throws {ServeError} INVALID_MODEL when it is a damaged zip
 */
export async function weightsOf(file: string): Promise<Weights> {
  const extension = extname(file).toLowerCase();
  if (extension === '.onnx' || extension === '.ort') return { kind: 'onnx' };
  if (extension === '.safetensors') return { kind: 'safetensors' };
  if (compiledEndings.has(extension)) return { kind: 'compiled' };
  const other = otherEndings[extension];
  if (other !== undefined) return { kind: 'other', what: other };
  const head = await headOf(file);
  if (head.subarray(0, 2).toString('latin1') === 'PK') return await zipped(file);
  // The first opcode of a pickle, in the protocols that PyTorch has written.
  if (head[0] === 0x80 && (head[1] ?? 0) >= 2 && (head[1] ?? 0) <= 5) {
    const pickle = (await stat(file)).size <= largestPickle ? await readFile(file) : await headOf(file, 1 << 20);
    return pickled(pickle);
  }
  return { kind: 'other', what: 'a file of an unknown kind' };
}

async function headOf(file: string, bytes = 4): Promise<Buffer> {
  const handle = await open(file, 'r');
  try {
    const { buffer: head, bytesRead } = await handle.read(Buffer.alloc(bytes), 0, bytes, 0);
    return head.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

async function zipped(file: string): Promise<Weights> {
  try {
    const zip = await openPromise(file, { autoClose: false });
    try {
      let pickle: Entry | undefined;
      for await (const entry of zip.eachEntry()) {
        const name = entry.fileName;
        if (/(^|\/)code\/__torch__/.test(name) || /(^|\/)constants\.pkl$/.test(name)) return { kind: 'torchscript' };
        if (/(^|\/)(archive_format|serialized_exported_program\.json|models\/[^/]+\.json)$/.test(name))
          return { kind: 'exported-program' };
        if (/(^|\/)data\.pkl$/.test(name) && entry.uncompressedSize <= largestPickle) pickle = entry;
      }
      if (pickle === undefined) return { kind: 'other', what: 'a zip archive' };
      return pickled(await buffer(await zip.openReadStreamPromise(pickle)));
    } finally {
      zip.close();
    }
  } catch (error) {
    throw new ServeError('INVALID_MODEL', `It is damaged: ${(error as Error).message}.`, { cause: error });
  }
}

/** A pickle of a state dict names only tensors; one of a module names the classes of its layers. */
function pickled(pickle: Buffer): Weights {
  const named = pickleGlobals(pickle);
  if (!named.some(([module]) => module.startsWith('torch.nn.modules.'))) return { kind: 'state-dict' };
  const own = named.filter(
    ([module, name]) =>
      /^[\w.]+$/.test(`${module}.${name}`) && !/^(torch|collections|builtins|__builtin__|numpy|_codecs)(\.|$)/.test(module),
  );
  return { kind: 'pickled-module', classes: own.map((parts) => parts.join('.')) };
}
