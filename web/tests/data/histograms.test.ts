import { describe, expect, it } from "vitest";
import { columnOf, type Column } from "../../src/panels/data/columns";
import {
  binsOf,
  histogram,
  histograms,
  jensenShannon,
  sharesOf,
} from "../../src/panels/data/histograms";
import { smallModel } from "../fixture";
import { random } from "../random";

const model = await smallModel();
const next = random(6);
const numbers: Column = {
  key: "z:0",
  name: "z0",
  kind: "number",
  values: Float32Array.from({ length: 500 }, next),
  labels: [],
  dimension: 0,
};

describe("shares", () => {
  it("add up to 1, whatever is missing, and to 0 for no rows", () => {
    const values = numbers.values.slice();
    values[3] = NaN;
    const bins = binsOf(numbers);
    const rows = [...values.keys()].filter((row) => row % 3 === 0);
    expect(sharesOf(values, rows, bins).reduce((a, b) => a + b)).toBeCloseTo(1);
    expect(sharesOf(values, [3], bins).every((share) => share === 0)).toBe(true);
  });

  it("are those of a count of the values between the ends of each bin", () => {
    const bins = binsOf(numbers);
    const rows = [...numbers.values.keys()];
    sharesOf(numbers.values, rows, bins).forEach((share, n) => {
      const { low, high } = bins[n]!;
      const last = n === bins.length - 1;
      const count = numbers.values.filter((value) => value >= low && (last || value < high)).length;
      expect(Math.abs(share - count / 500)).toBeLessThanOrEqual(1 / 500); // a value at an end, by rounding
    });
  });

  it("have a bin for each value of a class", () => {
    const column = columnOf(model, "factor:1")!;
    expect(binsOf(column).map(({ label }) => label)).toEqual(["square", "ellipse", "heart"]);
    expect(sharesOf(column.values, [0, 1, 3, 6], binsOf(column))).toEqual([0.75, 0.25, 0]);
  });
});

describe("the Jensen-Shannon divergence", () => {
  const normalized = (weights: number[]) => weights.map((w) => w / weights.reduce((a, b) => a + b));

  it("is 0 for equal and 1 for disjoint distributions", () => {
    expect(jensenShannon([0.2, 0.8], [0.2, 0.8])).toBe(0);
    expect(jensenShannon([1, 0], [0, 1])).toBe(1);
  });

  it("has its closed form: H(m) - (H(p) + H(q)) / 2", () => {
    const entropy = (p: number[]) =>
      -p.reduce((sum, share) => sum + (share > 0 ? share * Math.log2(share) : 0), 0);
    for (let n = 0; n < 20; n++) {
      const [p, q] = [
        normalized([next(), next(), next(), 0]),
        normalized([next(), next(), 0, next()]),
      ];
      const middle = p.map((share, k) => (share + q[k]!) / 2);
      expect(jensenShannon(p, q)).toBeCloseTo(entropy(middle) - (entropy(p) + entropy(q)) / 2);
      expect(jensenShannon(p, q)).toBeCloseTo(jensenShannon(q, p));
    }
  });
});

describe("histograms of a selection", () => {
  it("come with the most different first", () => {
    const hearts = [...columnOf(model, "factor:1")!.values.keys()].filter((row) => row % 3 === 2);
    const drawn = histograms(model, hearts);
    expect(
      drawn
        .map(({ key }) => key)
        .slice(0, 2)
        .sort(),
    ).toEqual(["factor:1", "z:2"]);
    expect(drawn[0]!.divergence).toBe(1);
    drawn
      .slice(1)
      .forEach(({ divergence }, n) => expect(divergence).toBeLessThanOrEqual(drawn[n]!.divergence));
  });

  it("swap with the selection", () => {
    const even = Array.from({ length: 250 }, (_, n) => 2 * n);
    const odd = even.map((row) => row + 1);
    const [a, b] = [histogram(numbers, even, odd), histogram(numbers, odd, even)];
    expect(a.selected).toEqual(b.rest);
    expect(a.divergence).toBeCloseTo(b.divergence);
  });
});
