import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { readExternalData } from '@onnxserve/archiver/external-data';
import { ServeError } from '../domain/errors.js';
import { isInside } from './entry-path.js';

/**
 * @param root folder that the data may not leave, absolute
 * @throws {ServeError} INVALID_MODEL naming the missing, short or escaping file
 */
export async function checkExternalData(file: string, root: string, shownName: string): Promise<void> {
  const sizes = new Map<string, number>();
  for (const { location, offset, length } of await readExternalData(file)) {
    const path = resolve(dirname(file), location.replaceAll('\\', '/'));
    if (!isInside(root, path)) {
      throw new ServeError('INVALID_MODEL', `${shownName} keeps weights in "${location}", which is not inside the archive.`);
    }
    let size = sizes.get(path);
    if (size === undefined) {
      const found = await stat(path).catch(() => undefined);
      if (!found?.isFile()) {
        throw new ServeError(
          'INVALID_MODEL',
          `${shownName} keeps weights in "${location}", and there is no such file beside it.`,
        );
      }
      size = found.size;
      sizes.set(path, size);
    }
    if (offset + (length ?? 0) > size) {
      const what = `${shownName} wants ${offset + (length ?? 0)} bytes of "${location}", which has only ${size}.`;
      throw new ServeError('INVALID_MODEL', what);
    }
  }
}
