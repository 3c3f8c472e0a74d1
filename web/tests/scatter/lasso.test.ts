import { describe, expect, it } from "vitest";
import type { Place } from "../../src/scatter/camera";
import { extended, inside, rowsInside } from "../../src/scatter/lasso";
import { random } from "../random";

const SQUARE: Place[] = [
  [0, 0],
  [2, 0],
  [2, 2],
  [0, 2],
];
const NOTCHED: Place[] = [
  [0, 0],
  [4, 0],
  [4, 3],
  [2, 1],
  [0, 3],
];

/** The area of a simple polygon, by the shoelace formula. */
function area(corners: Place[]): number {
  const twice = corners.map(([x, y], n) => {
    const [u, v] = corners[(n + 1) % corners.length]!;
    return x * v - u * y;
  });
  return Math.abs(twice.reduce((sum, part) => sum + part, 0)) / 2;
}

describe("a lasso", () => {
  it("holds what lies in it", () => {
    expect(inside([1, 1], SQUARE)).toBe(true);
    expect(inside([3, 1], SQUARE)).toBe(false);
    expect(inside([2, 2], NOTCHED)).toBe(false);
    expect(inside([2, 0.5], NOTCHED)).toBe(true);
  });

  it("has no inside where it goes around twice", () => {
    const star = [0, 2, 4, 1, 3].map((n): Place => [Math.cos(1.2566 * n), Math.sin(1.2566 * n)]);
    expect(inside([0, 0], star)).toBe(false);
  });

  it("holds a share of random points that is its share of the area", () => {
    const next = random(1);
    let count = 0;
    for (let n = 0; n < 20_000; n++) count += +inside([4 * next(), 3 * next()], NOTCHED);
    expect(Math.abs(count / 20_000 - area(NOTCHED) / 12)).toBeLessThan(0.015); // four standard errors
  });

  it("does not depend on where it starts, on its direction, or on the scale of the axes", () => {
    const next = random(2);
    for (let n = 0; n < 200; n++) {
      const at: Place = [5 * next(), 4 * next()];
      const expected = inside(at, NOTCHED);
      expect(inside(at, [...NOTCHED].reverse())).toBe(expected);
      expect(inside(at, [...NOTCHED.slice(2), ...NOTCHED.slice(0, 2)])).toBe(expected);
      expect(
        inside(
          [3 * at[0] - 7, 100 * at[1]],
          NOTCHED.map(([x, y]): Place => [3 * x - 7, 100 * y]),
        ),
      ).toBe(expected);
    }
  });

  it("selects the same rows as one test for each, and none without coordinates", () => {
    const next = random(3);
    const x = Float32Array.from({ length: 300 }, () => 5 * next());
    const y = Float32Array.from({ length: 300 }, () => 4 * next());
    x[7] = NaN;
    const expected = [...x.keys()].filter((row) => inside([x[row]!, y[row]!], NOTCHED));
    expect(rowsInside(x, y, NOTCHED)).toEqual(expected);
    expect(expected).not.toContain(7);
  });

  it("gets a corner only when the hand has moved", () => {
    expect(extended([[0, 0]], [3, 0])).toHaveLength(1);
    expect(extended([[0, 0]], [6, 0])).toHaveLength(2);
  });
});
