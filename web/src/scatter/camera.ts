/** What part of a plot is seen: a box in data coordinates, and how it moves. */

export type Span = [number, number];

export interface Box {
  x: Span;
  y: Span;
}

/** A place on the screen or in the data. */
export type Place = readonly [number, number];

export interface Size {
  width: number;
  height: number;
}

/** How far one can zoom in, as a multiple of the whole, and how much of it is seen at most. */
const CLOSEST = 2000;
const FARTHEST = 1.1;

/** The span of the finite values, with some room at both ends. */
export function spanOf(values: Float32Array, room = 0.05): Span {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [-1, 1];
  const margin = (high - low) * room || 0.5;
  return [low - margin, high + margin];
}

/** Pixels, from the left upper corner, of a place in the data. */
export function toScreen(box: Box, size: Size, [x, y]: Place): [number, number] {
  const across = (x - box.x[0]) / (box.x[1] - box.x[0]);
  const up = (y - box.y[0]) / (box.y[1] - box.y[0]);
  return [across * size.width, (1 - up) * size.height];
}

/** The place in the data at pixels from the left upper corner. */
export function toData(box: Box, size: Size, [px, py]: Place): [number, number] {
  return [
    box.x[0] + (px / size.width) * (box.x[1] - box.x[0]),
    box.y[1] - (py / size.height) * (box.y[1] - box.y[0]),
  ];
}

/** Move the content by pixels. */
export function panned(box: Box, size: Size, [dx, dy]: Place): Box {
  const right = (dx / size.width) * (box.x[1] - box.x[0]);
  const up = (-dy / size.height) * (box.y[1] - box.y[0]);
  return { x: [box.x[0] - right, box.x[1] - right], y: [box.y[0] - up, box.y[1] - up] };
}

/** Enlarge by a factor around a place in the data, within limits relative to the whole: zooming out
 * ends at the whole with a small margin, wherever the place is. */
export function zoomed(box: Box, whole: Box, factor: number, at: Place): Box {
  const now = (whole.x[1] - whole.x[0]) / (box.x[1] - box.x[0]);
  const by = Math.min(Math.max(now * factor, 1 / FARTHEST), CLOSEST) / now;
  const [x, y] = [scaled(box.x, by, at[0]), scaled(box.y, by, at[1])];
  return factor < 1 ? { x: within(x, whole.x), y: within(y, whole.y) } : { x, y };
}

/** A span moved, and cut if it must be, to lie within the whole and its margin. */
function within([low, high]: Span, whole: Span): Span {
  const [first, last] = scaled(whole, 1 / FARTHEST, (whole[0] + whole[1]) / 2);
  const shift = Math.max(first - low, 0) + Math.min(last - high, 0);
  return high - low >= last - first ? [first, last] : [low + shift, high + shift];
}

function scaled([low, high]: Span, by: number, at: number): Span {
  return [at + (low - at) / by, at + (high - at) / by];
}

export function centre(box: Box): [number, number] {
  return [(box.x[0] + box.x[1]) / 2, (box.y[0] + box.y[1]) / 2];
}
