export type Point = readonly [x: number, y: number];
/** Corners clockwise from the top left, as a reader sees them. */
export type Box = readonly [Point, Point, Point, Point];

export interface Rectangle {
  readonly corners: Box;
  readonly shortSide: number;
}

export function distance(a: Point, b: Point): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}

/** Twice the signed area of the triangle; above 0 when `c` lies to the right of a→b with y pointing down. */
export function cross(a: Point, b: Point, c: Point): number {
  return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

/** Convex hull in order, without points in the middle of an edge. */
export function convexHull(points: readonly Point[]): Point[] {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const chain = (ordered: readonly Point[]): Point[] => {
    const hull: Point[] = [];
    for (const point of ordered) {
      while (hull.length >= 2 && cross(hull.at(-2)!, hull.at(-1)!, point) <= 0) hull.pop();
      hull.push(point);
    }
    hull.pop();
    return hull;
  };
  return [...chain(sorted), ...chain(sorted.reverse())];
}

/** The rectangle of least area around the points; one of its sides lies on an edge of their hull. */
export function smallestRectangle(points: readonly Point[]): Rectangle | undefined {
  const hull = convexHull(points);
  if (hull.length < 3) return undefined;
  let best: { area: number; corners: Point[]; shortSide: number } | undefined;
  for (let index = 0; index < hull.length; index++) {
    const from = hull[index]!;
    const to = hull[(index + 1) % hull.length]!;
    const length = distance(from, to);
    const [ux, uy] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
    let [minU, maxU, minV, maxV] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of hull) {
      const u = x * ux + y * uy;
      const v = y * ux - x * uy;
      minU = Math.min(minU, u);
      maxU = Math.max(maxU, u);
      minV = Math.min(minV, v);
      maxV = Math.max(maxV, v);
    }
    const area = (maxU - minU) * (maxV - minV);
    if (best !== undefined && area >= best.area) continue;
    const corner = (u: number, v: number): Point => [u * ux - v * uy, u * uy + v * ux];
    best = {
      area,
      corners: [corner(minU, minV), corner(maxU, minV), corner(maxU, maxV), corner(minU, maxV)],
      shortSide: Math.min(maxU - minU, maxV - minV),
    };
  }
  return best === undefined ? undefined : { corners: readingCorners(best.corners), shortSide: best.shortSide };
}

/** The two left corners are told apart from the two right ones first, then upper from lower. */
function readingCorners(corners: readonly Point[]): Box {
  const byX = [...corners].sort((a, b) => a[0] - b[0]);
  const [topLeft, bottomLeft] = byX.slice(0, 2).sort((a, b) => a[1] - b[1]);
  const [topRight, bottomRight] = byX.slice(2).sort((a, b) => a[1] - b[1]);
  return [topLeft!, topRight!, bottomRight!, bottomLeft!];
}

/** The rectangle with each side moved outwards by area times `ratio` over perimeter. */
export function grow({ corners }: Rectangle, ratio: number): Rectangle {
  const [a, b, , d] = corners;
  const width = distance(a, b);
  const height = distance(a, d);
  const by = (width * height * ratio) / (2 * (width + height));
  const along: Point = [((b[0] - a[0]) / width) * by, ((b[1] - a[1]) / width) * by];
  const down: Point = [((d[0] - a[0]) / height) * by, ((d[1] - a[1]) / height) * by];
  const moved = (point: Point, right: number, below: number): Point => [
    point[0] + right * along[0] + below * down[0],
    point[1] + right * along[1] + below * down[1],
  ];
  return {
    corners: [moved(a, -1, -1), moved(b, 1, -1), moved(corners[2], 1, 1), moved(d, -1, 1)],
    shortSide: Math.min(width, height) + 2 * by,
  };
}
