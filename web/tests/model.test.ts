import { describe, expect, it } from "vitest";
import { classOf, scoreOf, traverse, valueAt, withClass } from "../src/model";
import { normalCdf } from "../src/panels/slider";
import { NORMAL, smallModel } from "./fixture";

describe("scores of the prior", () => {
  it("are the values of a standard normal prior", () => {
    for (const score of [-3, -1.234, 0, 0.05, 2.999, 3]) {
      expect(valueAt(NORMAL, score)).toBeCloseTo(score, 10);
      expect(scoreOf(NORMAL, score)).toBeCloseTo(score, 10);
    }
  });

  it("stay within the sliders' range", () => {
    expect(scoreOf(NORMAL, -99)).toBe(-3);
    expect(scoreOf(NORMAL, 99)).toBe(3);
    expect(scoreOf(NORMAL, NaN)).toBe(-3);
  });

  it("have normal probabilities", () => {
    expect(normalCdf(0)).toBeCloseTo(0.5, 6);
    expect(normalCdf(1.959964)).toBeCloseTo(0.975, 6);
    expect(normalCdf(-1)).toBeCloseTo(0.158655, 6);
  });
});

describe("codes", () => {
  it("keep all else when a class is chosen", async () => {
    const model = await smallModel();
    const c = model.variable(2);
    const code = model.code(4);
    expect(classOf(c, code)).toBe(1);
    const changed = withClass(c, code, 2);
    expect(classOf(c, changed)).toBe(2);
    expect(changed.slice(0, 2)).toEqual(code.slice(0, 2));
  });

  it("of a traversal take all classes, or scores from -2 to 2", async () => {
    const model = await smallModel();
    expect(
      traverse(model.variable(2), model.code(0), 9).map((z) => classOf(model.variable(2), z)),
    ).toEqual([0, 1, 2]);
    const values = traverse(model.variable(0), model.code(0), 5).map((z) => z[0]);
    expect(values.map((value) => +value!.toFixed(6))).toEqual([-2, -1, 0, 1, 2]);
  });
});
