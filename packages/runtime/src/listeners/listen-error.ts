/** A listener that could not be opened. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}
