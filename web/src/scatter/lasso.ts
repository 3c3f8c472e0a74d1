/** Polygons drawn by hand around points. */
import type { Place } from "./camera";

/** Whether a place lies in a polygon, by the even-odd rule. */
export function inside([x, y]: Place, corners: readonly Place[]): boolean {
  let odd = false;
  for (let n = 0, before = corners.length - 1; n < corners.length; before = n++) {
    const [ax, ay] = corners[n]!;
    const [bx, by] = corners[before]!;
    if (ay > y !== by > y && x < ax + ((bx - ax) * (y - ay)) / (by - ay)) odd = !odd;
  }
  return odd;
}

/** The points of (x, y) in a polygon; points without coordinates (NaN) are in none. */
export function rowsInside(x: Float32Array, y: Float32Array, corners: readonly Place[]): number[] {
  const xs = corners.map((corner) => corner[0]);
  const ys = corners.map((corner) => corner[1]);
  const [left, right, low, high] = [
    Math.min(...xs),
    Math.max(...xs),
    Math.min(...ys),
    Math.max(...ys),
  ];
  const rows: number[] = [];
  for (let n = 0; n < x.length; n++) {
    const [px, py] = [x[n]!, y[n]!];
    if (px >= left && px <= right && py >= low && py <= high && inside([px, py], corners))
      rows.push(n);
  }
  return rows;
}

/** Add a corner to a path on the screen, unless the hand has hardly moved. */
export function extended(path: readonly Place[], place: Place, least = 5): Place[] {
  const last = path.at(-1);
  if (last && Math.hypot(place[0] - last[0], place[1] - last[1]) < least) return [...path];
  return [...path, place];
}
