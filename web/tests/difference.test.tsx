import { expect, it } from "vitest";
import type { ColourMap, ImageObservation } from "../src/bundle";
import { differenceLegend } from "../src/panels/tiles";
import { imageData } from "../src/ui/observation";

const RGB: ColourMap = {
  low: [0, 0, 0],
  high: [1, 1, 1],
  colours: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  diverging: false,
  alpha: false,
};
const RGBA: ColourMap = {
  low: [0, 0, 0, 0],
  high: [1, 1, 1, 1],
  colours: [...RGB.colours, [0, 0, 0]],
  diverging: false,
  alpha: true,
};
const GREY: ColourMap = {
  low: [0],
  high: [1],
  colours: [[1, 1, 1]],
  diverging: false,
  alpha: false,
};

/** The colour of the difference of two images of one pixel. */
function drawn(colours: ColourMap, to: number[], from: number[]): number[] {
  const seen = {
    kind: "image",
    channels: colours.low.length,
    height: 1,
    width: 1,
    colours,
  } as ImageObservation;
  return Array.from(imageData(seen, Float32Array.from(to), Float32Array.from(from)).data);
}

it("red that becomes green differs from no change", () => {
  expect(drawn(RGB, [0, 1, 0], [1, 0, 0])).toEqual([0, 255, 128, 255]);
  expect(drawn(RGB, [1, 0.25, 0], [1, 0.25, 0])).toEqual([128, 128, 128, 255]);
});

it("opacity is no colour", () => {
  expect(drawn(RGBA, [0.25, 0, 0, 1], [0, 0, 0, 0])).toEqual([191, 128, 128, 255]);
});

it("one channel goes from blue over white to red", () => {
  expect(drawn(GREY, [0.5], [0.5])).toEqual([250, 250, 250, 255]);
  expect(drawn(GREY, [1], [0])).toEqual([190, 60, 10, 255]);
});

it("the legend says what the colours mean, and what is compared", () => {
  expect(differenceLegend(GREY, "now")).toBe(
    "Red is brighter than now, blue is darker, white is no change.",
  );
  expect(differenceLegend(RGBA, "at the start of the path")).toBe(
    "A colour is brighter where there is more of it than at the start of the path, darker where there is less; grey is no change. Opacity is left out.",
  );
});
