import { describe, expect, it } from "vitest";
import { classColour, css, DISTINCT, scaleColour } from "../../src/scatter/palette";

/** Relative luminance of sRGB, as WCAG has it. */
function luminance(colour: readonly number[]): number {
  const [r, g, b] = colour.map((part) =>
    part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

describe("colours of points", () => {
  it("grow brighter along the scale, so that order is seen without hue", () => {
    const brightness = Array.from({ length: 50 }, (_, n) => luminance(scaleColour(n / 49)));
    brightness.slice(1).forEach((value, n) => expect(value).toBeGreaterThan(brightness[n]!));
  });

  it("are those of viridis at its ends and its middle, and stay there beyond", () => {
    expect(scaleColour(0)).toEqual([68, 1, 84]);
    expect(scaleColour(1)).toEqual([253, 231, 37]);
    expect(scaleColour(-3)).toEqual(scaleColour(0));
    expect(scaleColour(7)).toEqual(scaleColour(1));
    // matplotlib: viridis(0.5) is (33, 145, 140)
    scaleColour(0.5).forEach((part, n) =>
      expect(Math.abs(part - [33, 145, 140][n]!)).toBeLessThanOrEqual(3),
    );
  });

  it("are seen on a dark page from the first, with a contrast of 3", () => {
    const card = luminance([0x1e, 0x22, 0x27]);
    for (let n = 0; n < 50; n++)
      expect((luminance(scaleColour(n / 49, true)) + 0.05) / (card + 0.05)).toBeGreaterThan(3);
    expect(scaleColour(1, true)).toEqual(scaleColour(1));
  });

  it("differ between classes until they repeat", () => {
    const first = Array.from({ length: DISTINCT }, (_, n) => css(classColour(n)));
    expect(new Set(first).size).toBe(DISTINCT);
    expect(css(classColour(DISTINCT))).toBe(first[0]);
  });
});
