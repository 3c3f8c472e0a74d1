import { describe, expect, it } from "vitest";
import { panned, toScreen, zoomed, type Box } from "../../src/scatter/camera";
import { around, frameOf, serves } from "../../src/scatter/snapshot";
import { random } from "../random";

const WHOLE: Box = { x: [-3, 5], y: [10, 12] };
const SIZE = { width: 321, height: 203 };

/** Boxes to which a hand could move. */
function boxes(count: number): Box[] {
  const next = random(7);
  let box = WHOLE;
  return Array.from({ length: count }, () => {
    const at: [number, number] = [-3 + 8 * next(), 10 + 2 * next()];
    box = zoomed(
      panned(box, SIZE, [60 * next() - 30, 60 * next() - 30]),
      WHOLE,
      Math.exp(0.6 * next() - 0.3),
      at,
    );
    return box;
  });
}

describe("a snapshot", () => {
  it("has whole pixels around what is seen, of the same scale", () => {
    for (const seen of boxes(50)) {
      const { box, size } = around(seen, SIZE);
      const [left, top] = toScreen(box, size, [seen.x[0], seen.y[1]]);
      const [right, bottom] = toScreen(box, size, [seen.x[1], seen.y[0]]);
      expect([left, top, right - left, bottom - top].map((n) => +n.toFixed(6))).toEqual([
        80, 51, 321, 203,
      ]);
    }
  });

  it("shows every place where a drawing would, to half a pixel", () => {
    const [first, ...others] = boxes(200);
    const snapshot = around(first!, SIZE);
    for (const seen of others) {
      const frame = frameOf(snapshot, seen, SIZE);
      for (const place of [
        [-3, 10],
        [5, 12],
        [1, 11.3],
      ] as const) {
        const [px, py] = toScreen(snapshot.box, snapshot.size, place);
        const [x, y] = toScreen(seen, SIZE, place);
        expect(
          Math.abs(frame.x + (px * frame.width) / snapshot.size.width - x),
        ).toBeLessThanOrEqual(0.51);
        expect(
          Math.abs(frame.y + (py * frame.height) / snapshot.size.height - y),
        ).toBeLessThanOrEqual(0.51);
      }
    }
  });

  it("is moved by whole pixels if it is not scaled", () => {
    const frame = frameOf(around(WHOLE, SIZE), panned(WHOLE, SIZE, [12.3, -7.8]), SIZE);
    expect(frame).toEqual({ x: -68, y: -59, width: 481, height: 305 });
  });

  it("serves only where all that is seen of the whole is in it, about as large", () => {
    const seen: Box = { x: [0, 2], y: [10.8, 11.2] };
    const isServed = (to: Box) => serves(around(seen, SIZE), WHOLE, to);
    expect(isServed(panned(seen, SIZE, [79, 50]))).toBe(true);
    expect(isServed(panned(seen, SIZE, [82, 0]))).toBe(false);
    expect(isServed(panned(seen, SIZE, [0, -53]))).toBe(false);
    expect(
      [1.25, 1.35, 0.8, 0.75].map((factor) => isServed(zoomed(seen, WHOLE, factor, [1, 11]))),
    ).toEqual([true, false, true, false]);
    expect(serves(around(WHOLE, SIZE), WHOLE, panned(WHOLE, SIZE, [300, 200]))).toBe(true);
  });
});
