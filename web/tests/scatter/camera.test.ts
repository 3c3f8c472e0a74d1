import { describe, expect, it } from "vitest";
import {
  panned,
  spanOf,
  toData,
  toScreen,
  zoomed,
  type Box,
  type Place,
} from "../../src/scatter/camera";
import { clip } from "../../src/scatter/renderer";

const BOX: Box = { x: [-2, 6], y: [10, 11] };
const SIZE = { width: 800, height: 400 };

describe("the camera", () => {
  it("has a screen with its origin at the left upper corner", () => {
    expect(toScreen(BOX, SIZE, [-2, 11])).toEqual([0, 0]);
    expect(toScreen(BOX, SIZE, [6, 10])).toEqual([800, 400]);
  });

  it("goes back from the screen to the data", () => {
    const [x, y] = toData(BOX, SIZE, toScreen(BOX, SIZE, [1.25, 10.3]));
    expect([x, y]).toEqual([expect.closeTo(1.25), expect.closeTo(10.3)]);
  });

  it("keeps the place around which it zooms", () => {
    const at: Place = [3, 10.2];
    const closer = zoomed(BOX, BOX, 5, at);
    const [[x, y], [u, v]] = [toScreen(BOX, SIZE, at), toScreen(closer, SIZE, at)];
    expect([x, y]).toEqual([expect.closeTo(u), expect.closeTo(v)]);
    expect(closer.x[1] - closer.x[0]).toBeCloseTo(8 / 5);
  });

  it("zooms only so far", () => {
    const far = zoomed(zoomed(BOX, BOX, 1e-3, [0, 10]), BOX, 1e-3, [0, 10]);
    expect(far.x).toEqual([expect.closeTo(-2.4), expect.closeTo(6.4)]);
    expect(far.y).toEqual([expect.closeTo(9.95), expect.closeTo(11.05)]);
    const near = zoomed(BOX, BOX, 1e9, [0, 10]);
    expect(near.x[1] - near.x[0]).toBeCloseTo(8 / 2000);
  });

  it("stays at the data while it zooms out from a corner", () => {
    const corner = zoomed(BOX, BOX, 8, [6, 11]);
    const { x, y } = zoomed(corner, BOX, 0.2, [5, 10.9]);
    expect(x[1]).toBeLessThanOrEqual(6.4 + 1e-9);
    expect(y[1]).toBeLessThanOrEqual(11.05 + 1e-9);
    expect(x[1] - x[0]).toBeCloseTo(5);
  });

  it("moves the content with the pointer", () => {
    const [x, y] = toScreen(panned(BOX, SIZE, [30, -12]), SIZE, [1, 10.5]);
    const [u, v] = toScreen(BOX, SIZE, [1, 10.5]);
    expect([x - u, y - v]).toEqual([expect.closeTo(30), expect.closeTo(-12)]);
  });

  it("shows all finite values", () => {
    const [low, high] = spanOf(new Float32Array([NaN, 3, 7]));
    expect(low).toBeLessThan(3);
    expect(high).toBeGreaterThan(7);
    expect(spanOf(new Float32Array([2, 2]))).toEqual([1.5, 2.5]);
    expect(spanOf(new Float32Array([NaN]))).toEqual([-1, 1]);
    expect(spanOf(new Float32Array([2, Infinity, -Infinity]))).toEqual([1.5, 2.5]);
  });

  it("maps what is seen to the shader's -1 to 1", () => {
    const whole: [number, number] = [-10, 30];
    const { scale, shift } = clip(whole, BOX.x);
    const seen = (value: number) => ((value - whole[0]) / 40) * scale + shift;
    expect(seen(-2)).toBeCloseTo(-1);
    expect(seen(6)).toBeCloseTo(1);
  });
});
