import { describe, expect, it } from "vitest";
import { drawPoints } from "../../src/scatter/pixels";
import { SIXTEENTHS } from "../../src/scatter/renderer";

const BOX = { x: [0, 40] as [number, number], y: [0, 40] as [number, number] };
const SIZE = { width: 40, height: 40 };

/** Draw points of a diameter in pixels; one pixel is one unit. */
function draw(
  places: [number, number][],
  colours: number[][],
  diameter: number,
  order = [...places.keys()],
) {
  const points = {
    x: Float32Array.from(places, ([x]) => x),
    y: Float32Array.from(places, ([, y]) => y),
    whole: BOX,
  };
  const look = {
    rgba: Uint8Array.from(colours.flat()),
    sizes: new Uint8Array(places.length).fill(diameter * SIXTEENTHS),
    order: Uint32Array.from(order),
  };
  const pixels = drawPoints(points, look, BOX, SIZE, 1);
  return (column: number, row: number) => [
    ...pixels.subarray(4 * (row * 40 + column), 4 * (row * 40 + column) + 4),
  ];
}

function total(pixel: (column: number, row: number) => number[]): number {
  let sum = 0;
  for (let n = 0; n < 1600; n++) sum += pixel(n % 40, Math.floor(n / 40))[3]! / 255;
  return sum;
}

describe("drawing by pixels", () => {
  it("covers the area of a disc, at every place between pixels", () => {
    for (const shift of [0, 0.3, 0.5, 0.9]) {
      const seen = draw([[20 + shift, 20 - shift]], [[9, 9, 9, 255]], 9);
      expect(total(seen) / (Math.PI * 4.5 ** 2)).toBeCloseTo(1, 1);
    }
  });

  it("keeps the colour and the opacity, and counts y upwards", () => {
    const seen = draw([[10, 30]], [[200, 100, 50, 128]], 8);
    const [r, g, b, alpha] = seen(10, 10);
    expect(alpha).toBe(128);
    [r, g, b].forEach((part, n) =>
      expect(Math.abs(part! - [200, 100, 50][n]!)).toBeLessThanOrEqual(2),
    );
    expect(seen(10, 30)[3]).toBe(0);
  });

  it("blends the uppermost point over the others", () => {
    const places: [number, number][] = [
      [20, 20],
      [20, 20],
    ];
    const colours = [
      [255, 0, 0, 255],
      [0, 0, 255, 102],
    ];
    const [r, , b, alpha] = draw(places, colours, 8)(20, 20);
    expect(alpha).toBe(255);
    expect(Math.abs(r! - 0.6 * 255)).toBeLessThanOrEqual(2);
    expect(Math.abs(b! - 0.4 * 255)).toBeLessThanOrEqual(2);
    expect(draw(places, colours, 8, [1, 0])(20, 20)).toEqual([255, 0, 0, 255]);
  });

  it("cuts points at the edge, and leaves out those beyond and those without a place", () => {
    const half = total(draw([[0, 20]], [[9, 9, 9, 255]], 9));
    expect(half / ((Math.PI * 4.5 ** 2) / 2)).toBeCloseTo(1, 1);
    expect(
      total(
        draw(
          [
            [-50, 20],
            [NaN, 3],
          ],
          [
            [9, 9, 9, 255],
            [9, 9, 9, 255],
          ],
          9,
        ),
      ),
    ).toBe(0);
  });
});
