const LARGEST_PAGE = 100;

/** A page of a list as TorchServe cuts it: the token is there whenever the page does not reach beyond the end. */
export function pageOf<T>(all: readonly T[], limit: number, pageToken: number): { items: T[]; nextPageToken?: string } {
  const size = limit > 0 && limit <= LARGEST_PAGE ? limit : LARGEST_PAGE;
  const start = Math.max(0, pageToken);
  const items = all.slice(start, start + size);
  return start + size <= all.length ? { items, nextPageToken: String(start + size) } : { items };
}
