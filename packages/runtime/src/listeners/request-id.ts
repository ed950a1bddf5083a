import { randomUUID } from 'node:crypto';

const acceptable = /^[\x21-\x7e]{1,128}$/;

/** The client's own id when it is 1 to 128 visible ASCII characters, else a new UUID: nothing hostile is ever echoed. */
export function requestId(given: string | string[] | undefined): string {
  return typeof given === 'string' && acceptable.test(given) ? given : randomUUID();
}
