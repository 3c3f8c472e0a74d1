import { describe, expect, it } from "vitest";
import { toScreen, type Box } from "../../src/scatter/camera";
import { apart, Picker, type Direction } from "../../src/scatter/picking";
import { random } from "../random";

const BOX: Box = { x: [0, 1], y: [0, 100] };
const SIZE = { width: 500, height: 300 };
const next = random(4);
const x = Float32Array.from({ length: 400 }, next);
const y = Float32Array.from({ length: 400 }, () => 100 * next());
const rows = Uint32Array.from(x.keys()).filter((row) => row !== 5);
const picker = new Picker(x, y, rows);
const screen = (row: number) => toScreen(BOX, SIZE, [x[row]!, y[row]!]);

describe("picking", () => {
  it("finds the nearest point within reach on the screen, whatever the axes' scales", () => {
    for (let n = 0; n < 100; n++) {
      const at: [number, number] = [500 * next(), 300 * next()];
      const away = (row: number) => Math.hypot(screen(row)[0] - at[0], screen(row)[1] - at[1]);
      const best = [...rows].sort((a, b) => away(a) - away(b))[0]!;
      expect(picker.nearest(BOX, SIZE, at, 12)).toBe(away(best) <= 12 ? best : null);
    }
  });

  it("finds nothing among no points", () => {
    expect(new Picker(x, y, new Uint32Array()).nearest(BOX, SIZE, [1, 1])).toBeNull();
  });

  it("does not find points that are left out", () => {
    expect(picker.nearest(BOX, SIZE, screen(5), 0.001)).not.toBe(5);
  });

  it.each<[Direction, number, number]>([
    ["left", -1, 0],
    ["right", 1, 0],
    ["up", 0, -1],
    ["down", 0, 1],
  ])("goes %s to the nearest point on that side", (direction, dx, dy) => {
    for (const from of [10, 50, 200]) {
      const found = picker.neighbour(BOX, SIZE, from, direction);
      const beside = [...rows].filter((row) => {
        const [u, v] = [screen(row)[0] - screen(from)[0], screen(row)[1] - screen(from)[1]];
        const along = u * dx + v * dy;
        return along > 1e-6 && Math.abs(u * dy + v * dx) <= along;
      });
      const away = (row: number) =>
        Math.hypot(screen(row)[0] - screen(from)[0], screen(row)[1] - screen(from)[1]);
      expect(found).toBe(beside.sort((a, b) => away(a) - away(b))[0] ?? null);
    }
  });

  it("chooses images that do not overlap, and leaves out only those that would", () => {
    const [perX, perY, side] = [500, 3, 40];
    const chosen = apart(x, y, rows, perX, perY, side);
    const overlap = (a: number, b: number) =>
      Math.abs(x[a]! - x[b]!) * perX < side && Math.abs(y[a]! - y[b]!) * perY < side;
    chosen.forEach((a, n) => chosen.slice(n + 1).forEach((b) => expect(overlap(a, b)).toBe(false)));
    const left = [...rows].filter((row) => !chosen.includes(row));
    for (const row of left) expect(chosen.some((other) => overlap(row, other))).toBe(true);
  });

  it("shows more images closer up", () => {
    expect(apart(x, y, rows, 5000, 30, 40).length).toBeGreaterThan(
      apart(x, y, rows, 500, 3, 40).length,
    );
  });
});
