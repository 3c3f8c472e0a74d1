/** Least squares, to place any code among principal components that are known for the rows only. */

const ROWS = 4000;
/** Keeps the equations solvable if columns depend on each other, as those of classes do. */
const RIDGE = 1e-9;

/** The affine function of codes (rows, size) that gives `values`, which must be one. */
export function affineMap(
  codes: Float32Array,
  size: number,
  values: Float32Array,
): (code: readonly number[]) => number {
  const width = size + 1;
  const normal = Array.from({ length: width }, () => new Float64Array(width + 1));
  for (let row = 0; row < Math.min(values.length, ROWS); row++) {
    const x = [...codes.subarray(row * size, (row + 1) * size), 1];
    x.forEach((a, i) => {
      x.forEach((b, j) => (normal[i]![j]! += a * b));
      normal[i]![width]! += a * values[row]!;
    });
  }
  const trace = normal.reduce((sum, line, n) => sum + line[n]!, 0);
  normal.forEach((line, n) => (line[n]! += RIDGE * trace));
  const weights = solve(normal);
  return (code) => code.reduce((sum, part, n) => sum + part * weights[n]!, weights[size]!);
}

/** Solve linear equations, each with its right side at the end, by Gauss-Jordan elimination. */
export function solve(lines: Float64Array[]): number[] {
  const count = lines.length;
  for (let n = 0; n < count; n++) {
    const pivot = largest(lines, n);
    [lines[n], lines[pivot]] = [lines[pivot]!, lines[n]!];
    const line = lines[n]!;
    const head = line[n]!;
    for (let j = n; j <= count; j++) line[j]! /= head;
    lines.forEach((other, i) => i !== n && subtract(other, line, other[n]!, n));
  }
  return lines.map((line) => line[count]!);
}

function largest(lines: readonly Float64Array[], n: number): number {
  let best = n;
  for (let i = n; i < lines.length; i++)
    if (Math.abs(lines[i]![n]!) > Math.abs(lines[best]![n]!)) best = i;
  return best;
}

function subtract(from: Float64Array, line: Float64Array, times: number, start: number): void {
  for (let j = start; j < line.length; j++) from[j]! -= times * line[j]!;
}
