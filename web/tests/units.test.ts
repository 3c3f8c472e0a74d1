import { expect, it } from "vitest";
import type { VectorObservation } from "../src/bundle";
import { comparable, limits } from "../src/ui/vector-scale";
import { inUnits, toNetwork, valueNames } from "../src/units";

const TABLE: VectorObservation = {
  kind: "vector",
  length: 3,
  names: ["a", "b", "c"],
  positions: null,
  curve: false,
  units: { scale: [2, 0, 4], shift: [1, 7, 0], clip: false },
  counts: false,
};

it("a constant column is 0 for the network and its value for the user", () => {
  expect(Array.from(toNetwork(TABLE, [5, 7, 8]))).toEqual([2, 0, 2]);
  expect(inUnits(TABLE, [2, 0, 2])).toEqual([5, 7, 8]);
  expect(comparable(TABLE, [4, 0, 8], true)).toEqual([2, 0, 2]);
});

it("values of percentile scaling are clipped", () => {
  const clipped = { ...TABLE, units: { ...TABLE.units, clip: true } };
  expect(Array.from(toNetwork(clipped, [-5, 7, 2]))).toEqual([0, 0, 0.5]);
  expect(Array.from(toNetwork(clipped, [5, 9, 1]))).toEqual([1, 0, 0.25]);
});

it("limits ignore what is not finite", () => {
  expect(limits(null, [[NaN, 1, 3, Infinity]], false, false)).toEqual([1, 3]);
  expect(limits(null, [[NaN]], false, false)).toEqual([-1, 1]);
});

it("values of images are named by channel, row and column", () => {
  const image = { kind: "image", channels: 2, height: 1, width: 2, channelNames: ["red", "green"] };
  expect(valueNames(image as unknown as Parameters<typeof valueNames>[0])).toEqual([
    "red 0 0",
    "red 0 1",
    "green 0 0",
    "green 0 1",
  ]);
  expect(valueNames(TABLE)).toEqual(["a", "b", "c"]);
});
