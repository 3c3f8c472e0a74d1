import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { cellColour, contrast, inkOn, type Rgb } from "../src/colours";
import { colouring } from "../src/panels/data/colouring";

const STYLE = readFileSync("src/style.css", "utf8");
const SHARES = Array.from({ length: 1001 }, (_, n) => n / 1000);

/** A colour of the style sheet; dark ones come second. */
function variable(name: string, theme: "light" | "dark"): Rgb {
  const found = [...STYLE.matchAll(new RegExp(`--${name}: #(\\w{6})`, "g"))][
    theme === "light" ? 0 : 1
  ]![1]!;
  return [0, 2, 4].map((at) => parseInt(found.slice(at, at + 2), 16)) as Rgb;
}

describe.each(["light", "dark"] as const)("cells of a matrix in the %s theme", (theme) => {
  it("can be read at every share", () => {
    for (const share of SHARES) {
      const colour = cellColour(share, theme);
      expect(contrast(colour, inkOn(colour)), `${share}`).toBeGreaterThanOrEqual(4.5);
    }
  });

  it("can be read if they are no better than chance, in grey", () => {
    expect(contrast(cellColour(0, theme), variable("muted", theme))).toBeGreaterThanOrEqual(4.5);
  });

  it("end in the blue of the page, and get ever further from nothing", () => {
    expect(cellColour(1, theme)).toEqual(variable("blue", theme));
    const far = SHARES.map((share) => contrast(cellColour(share, theme), cellColour(0, theme)));
    far.slice(1).forEach((each, n) => expect(each).toBeGreaterThanOrEqual(far[n]!));
  });
});

it("contrast is that of WCAG 2, and one of black and white can be read on any colour", () => {
  expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21, 9);
  expect(contrast([0x77, 0x77, 0x77], [255, 255, 255])).toBeCloseTo(4.48, 2);
  const parts = [0, 51, 102, 153, 204, 255];
  for (const red of parts)
    for (const green of parts)
      for (const blue of parts) {
        expect(contrast([red, green, blue], inkOn([red, green, blue]))).toBeGreaterThanOrEqual(4.5);
      }
});

it.each(["light", "dark"] as const)("points of one colour are seen on a %s page", (theme) => {
  const { colour } = colouring(null, theme === "dark");
  expect(contrast(colour(0), variable("card", theme))).toBeGreaterThanOrEqual(4.5);
});
