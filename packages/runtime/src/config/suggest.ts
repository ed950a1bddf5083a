/** Edits (insert, delete, replace, swap of neighbours) from one word to the other. */
export function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const now = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let best = Math.min((last[column] ?? 0) + 1, (now[column - 1] ?? 0) + 1, (last[column - 1] ?? 0) + (same ? 0 : 1));
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1])
        best = Math.min(best, (before[column - 2] ?? 0) + 1);
      now.push(best);
    }
    before = last;
    last = now;
  }
  return last[b.length] ?? 0;
}

/** Spelling without case, dashes and underscores. */
export function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.\s]/g, '');
}

/** The candidate that was probably meant: same letters, or few edits for its length; undefined when none is near. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = plain(name);
  const most = Math.min(3, Math.floor(wanted.length / 4));
  let best: string | undefined;
  let bestDistance = Infinity;
  for (const candidate of candidates) {
    const offered = plain(candidate);
    // Names come from requests too, and one of a megabyte would take seconds to compare.
    if (Math.abs(offered.length - wanted.length) > most) continue;
    const distance = editDistance(wanted, offered);
    if (distance <= most && distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}
