/** A picture of more than what is seen: while the plot moves, it is moved and scaled with it. */
import { panned, toScreen, type Box, type Size, type Span } from "./camera";

/** How far a snapshot reaches beyond what is seen, at each side, relative to it. */
const MARGIN = 0.25;
/** How much a snapshot may be enlarged; more would be blurred. */
const LARGEST = 1.3;

export interface Snapshot {
  /** What was seen when it was taken. */
  seen: Box;
  /** What is in it, and its size in pixels. */
  box: Box;
  size: Size;
}

/** Where an image goes, in pixels. */
export interface Frame extends Size {
  x: number;
  y: number;
}

/** The box and size of a snapshot around what is seen on some pixels. */
export function around(seen: Box, size: Size, margin = MARGIN): Snapshot {
  const [x, y] = [Math.round(margin * size.width), Math.round(margin * size.height)];
  const [upper, lower] = [panned(seen, size, [x, y]), panned(seen, size, [-x, -y])];
  return {
    seen,
    box: { x: [upper.x[0], lower.x[1]], y: [lower.y[0], upper.y[1]] },
    size: { width: size.width + 2 * x, height: size.height + 2 * y },
  };
}

/** Where a snapshot goes when another box is seen. One that is not scaled stays sharp: it is moved by
 * whole pixels. */
export function frameOf(snapshot: Snapshot, seen: Box, size: Size): Frame {
  const { box } = snapshot;
  const [x, y] = toScreen(seen, size, [box.x[0], box.y[1]]);
  const [right, low] = toScreen(seen, size, [box.x[1], box.y[0]]);
  const [width, height] = [right - x, low - y];
  const scaled =
    Math.abs(width - snapshot.size.width) + Math.abs(height - snapshot.size.height) > 0.5;
  return scaled
    ? { x, y, width, height }
    : { x: Math.round(x), y: Math.round(y), ...snapshot.size };
}

/** Whether a snapshot can stand for a drawing of a box: it has all of the whole that is seen there,
 * and is not enlarged or reduced much. */
export function serves(snapshot: Snapshot, whole: Box, seen: Box): boolean {
  return (["x", "y"] as const).every((axis) => {
    const scale = width(snapshot.seen[axis]) / width(seen[axis]);
    return (
      scale <= LARGEST &&
      scale >= 1 / LARGEST &&
      within(common(seen[axis], whole[axis]), snapshot.box[axis])
    );
  });
}

function width([low, high]: Span): number {
  return high - low;
}

function common(a: Span, b: Span): Span {
  return [Math.max(a[0], b[0]), Math.min(a[1], b[1])];
}

/** Whether a span lies in another one; a span without width lies in every one. */
function within([low, high]: Span, [from, to]: Span): boolean {
  return low >= high || (low >= from && high <= to);
}
