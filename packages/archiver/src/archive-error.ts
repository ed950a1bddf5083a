/** Why no archive was made. The message names the file or option. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}
