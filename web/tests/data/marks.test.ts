import { expect, it } from "vitest";
import { pointer } from "../../src/panels/data/marks";

const SIZE = { width: 200, height: 100 };

it("a place in view needs no arrow", () => {
  expect(pointer([0, 100], SIZE)).toBeNull();
  expect(pointer([120, 30], SIZE)).toBeNull();
});

it("an arrow at the edge points straight to a place out of view", () => {
  expect(pointer([400, 50], SIZE)).toEqual({ at: [196, 50], angle: 0 });
  expect(pointer([-5, 50], SIZE)).toEqual({ at: [4, 50], angle: 180 });
  expect(pointer([90, 300], SIZE)).toEqual({ at: [90, 96], angle: 90 });
  expect(pointer([296, -96], SIZE)).toEqual({ at: [196, 4], angle: -45 });
});
