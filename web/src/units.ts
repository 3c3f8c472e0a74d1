/** Values as the user has them, and as the network has them. */
import type { ImageObservation, VectorObservation } from "./bundle";

export type Seen = ImageObservation | VectorObservation;

/** User's units to those of the network: one scale for all values, one a channel, or one a column. */
export function toNetwork(seen: Seen, numbers: ArrayLike<number>): Float32Array {
  const { clip } = seen.units;
  return Float32Array.from(scaled(seen, numbers, false), (x) =>
    clip ? Math.min(Math.max(x, 0), 1) : x,
  );
}

/** Values, or differences of values, as multiples of the unit of each. What is constant has the
 * scale 0 and becomes 0, as in Python. */
export function scaled(seen: Seen, numbers: ArrayLike<number>, difference: boolean): number[] {
  const { scale, shift } = seen.units;
  const unit = unitOf(seen);
  return Array.from(numbers, (x, n) => {
    const width = at(scale, unit(n));
    return width === 0 ? 0 : (x - (difference ? 0 : at(shift, unit(n)))) / width;
  });
}

/** The network's values in the user's units. */
export function inUnits(seen: Seen, values: ArrayLike<number>): number[] {
  const { scale, shift } = seen.units;
  const unit = unitOf(seen);
  return Array.from(values, (x, n) => x * at(scale, unit(n)) + at(shift, unit(n)));
}

/** The number of the unit of a value. */
function unitOf(seen: Seen): (n: number) => number {
  if (seen.kind === "vector") return (n) => n;
  const pixels = seen.height * seen.width;
  return (n) => Math.floor(n / pixels);
}

function at(values: readonly number[], n: number): number {
  return values[n] ?? values[0]!;
}

/** A name for each value: that of its column, or its channel, row and column in the image. */
export function valueNames(seen: Seen): string[] {
  if (seen.kind === "vector")
    return Array.from({ length: seen.length }, (_, n) => seen.names[n] ?? `column ${n}`);
  const { channels, height, width, channelNames } = seen;
  const pixels = height * width;
  return Array.from({ length: channels * pixels }, (_, n) => {
    const channel = channels === 1 ? "pixel" : (channelNames[Math.floor(n / pixels)] ?? "channel");
    return `${channel} ${Math.floor((n % pixels) / width)} ${n % width}`;
  });
}
