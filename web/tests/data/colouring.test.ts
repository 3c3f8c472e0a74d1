import { describe, expect, it } from "vitest";
import { colouring, density, lookOf } from "../../src/panels/data/colouring";
import { columnOf, type Column } from "../../src/panels/data/columns";
import { classColour, MISSING, scaleColour } from "../../src/scatter/palette";
import { smallModel } from "../fixture";

const model = await smallModel();
const shape = columnOf(model, "factor:1")!;
const gaps: Column = {
  ...shape,
  values: shape.values.map((value, row) => (row < 4 ? NaN : value)),
};
const rows = Uint32Array.from(shape.values.keys());

describe("colouring", () => {
  it("counts the rows of every class and the missing ones", () => {
    const { classes, missing } = colouring(gaps);
    expect(missing).toBe(4);
    expect(classes.reduce((sum, { count }) => sum + count, 0)).toBe(46);
    classes.forEach(({ value, count }) =>
      expect(count).toBe(gaps.values.filter((each) => each === value).length),
    );
  });

  it("paints classes in their colours and missing values grey", () => {
    const { colour } = colouring(gaps);
    expect(colour(0)).toBe(MISSING);
    expect(colour(5)).toEqual(classColour(2));
  });

  it("paints ordered values from one end of the scale to the other", () => {
    const { colour, ends } = colouring(columnOf(model, "factor:0"));
    expect(colour(0)).toEqual(scaleColour(0));
    expect(colour(4)).toEqual(scaleColour(1));
    expect(ends).toEqual(["0", "4"]);
  });

  it("is not stretched by a few extreme numbers", () => {
    const values = Float32Array.from({ length: 1000 }, (_, n) => (n === 500 ? 1e6 : n));
    const { scale } = colouring({ ...shape, kind: "number", labels: [], values });
    expect(scale![1]).toBeLessThan(1000);
  });
});

describe("the look of the points", () => {
  it("draws selected points last and strongest", () => {
    const selected = new Set([3, 10]);
    const { order, rgba } = lookOf(colouring(shape), rows, 50, selected);
    expect([...order].sort((a, b) => a - b)).toEqual([...rows]);
    expect([...order.slice(-2)]).toEqual([3, 10]);
    expect(rgba[4 * 3 + 3]).toBeGreaterThan(rgba[4 * 4 + 3]! * 5);
  });

  it("makes many points smaller and fainter", () => {
    expect(density(100_000).diameter).toBeLessThan(density(1000).diameter);
    expect(density(100_000).opacity).toBeLessThan(density(1000).opacity);
  });
});
