/** How far numbers may lie apart: rows of another batch size are rounded otherwise. */
const TOLERANCE = 1e-3;

/** Whether two answers say the same, as JSON values. */
export function same(one: unknown, other: unknown): boolean {
  if (typeof one === 'number' && typeof other === 'number')
    return Math.abs(one - other) <= TOLERANCE * Math.max(1, Math.abs(other));
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, at) => same(item, other[at]));
  }
  if (typeof one === 'object' && typeof other === 'object' && one !== null && other !== null) {
    const names = Object.keys(one);
    const values = (it: object, name: string) => (it as Record<string, unknown>)[name];
    return names.length === Object.keys(other).length && names.every((name) => same(values(one, name), values(other, name)));
  }
  return one === other;
}

/** The body as JSON, or the text itself. */
export function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}
