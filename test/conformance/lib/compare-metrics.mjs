// Prometheus text: every recorded family must be there with its type and its label names; values and further families are free.

/** @param {string} text @returns {Map<string, { type: string | undefined, labels: Set<string> }>} */
function families(text) {
  const found = new Map();
  /** @param {string} name */
  const family = (name) => {
    if (!found.has(name)) found.set(name, { type: undefined, labels: new Set() });
    return found.get(name);
  };
  for (const line of text.split('\n')) {
    const type = /^# TYPE (\S+) (\S+)/.exec(line);
    if (type) {
      family(type[1] ?? '').type = type[2];
      continue;
    }
    const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? /.exec(line);
    if (!sample) continue;
    for (const label of (sample[2] ?? '').matchAll(/(\w+)="/g)) family(sample[1] ?? '').labels.add(label[1]);
    family(sample[1] ?? '');
  }
  return found;
}

/** @param {string} text */
export const isMetricsText = (text) => /^# (HELP|TYPE) /m.test(text);

/**
 * @param {string} want
 * @param {string} got
 * @returns {string | undefined} the first difference
 */
export function metricsDifference(want, got) {
  const have = families(got);
  for (const [name, family] of families(want)) {
    const mine = have.get(name);
    if (!mine) return `metric family ${name} is missing`;
    if (family.type && mine.type && family.type !== mine.type)
      return `metric ${name}: wanted a ${family.type}, got a ${mine.type}`;
    if (mine.labels.size === 0) continue;
    for (const label of family.labels) if (!mine.labels.has(label)) return `metric ${name}: label ${label} is missing`;
  }
  return undefined;
}
