import { randomUUID } from 'node:crypto';
import { ServeError } from '../domain/errors.js';
import type { PredictRequest, SequenceMark } from '../domain/request.js';
import { isMarked, type SequenceKeys } from '../domain/sequence-keys.js';

export interface Place {
  readonly mark: SequenceMark;
  /** The request's own, and those of a sequence that the server begins for it. */
  readonly rawHeaders: readonly string[];
}

/** Ids are kept for as long as their sequences, and longer. */
const LONGEST_ID = 1024;

/**
 * Which sequence a request belongs to: the one its protocol or its headers name, else one of its own that begins with it.
 * @throws {ServeError} BAD_REQUEST for an id that is too long
 */
export function placeInSequence(
  { sequence, rawHeaders }: Pick<PredictRequest, 'sequence' | 'rawHeaders'>,
  keys: SequenceKeys,
  newId: () => string = () => `ts-seq-${randomUUID()}`,
): Place {
  const given = sequence ?? markOf(rawHeaders, keys);
  if (given.id.length > LONGEST_ID) {
    throw new ServeError(
      'BAD_REQUEST',
      `The id of the sequence has ${given.id.length} characters; the limit is ${LONGEST_ID} (${keys.id}).`,
    );
  }
  if (given.id !== '') return { mark: given, rawHeaders };
  const id = newId();
  const headers = [...rawHeaders, keys.id, id];
  if (!given.start) headers.push(keys.start, 'true');
  return { mark: { id, start: true, end: given.end, made: true }, rawHeaders: headers };
}

function markOf(rawHeaders: readonly string[], keys: SequenceKeys): SequenceMark {
  const mark = { id: '', start: false, end: false };
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase();
    const value = rawHeaders[at + 1]!;
    if (name === keys.id) mark.id = value.trim();
    else if (name === keys.start) mark.start = isMarked(value);
    else if (name === keys.end) mark.end = isMarked(value);
  }
  return mark;
}
