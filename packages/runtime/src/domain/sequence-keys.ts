/** Names of the headers, metadata entries or inputs that place a request in a sequence; in lower case. */
export interface SequenceKeys {
  readonly id: string;
  readonly start: string;
  readonly end: string;
}

/** Whether the value of a start or end mark sets it: anything but nothing, `0` and `false`. */
export function isMarked(value: string | undefined): boolean {
  return value !== undefined && !/^(?:false|0|)$/i.test(value.trim());
}
