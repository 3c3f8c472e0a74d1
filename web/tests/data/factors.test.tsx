import { render } from "preact";
import { beforeEach, describe, expect, it } from "vitest";
import { columnOf, type Column } from "../../src/panels/data/columns";
import { Factors } from "../../src/panels/factors/factors";
import { linked } from "../../src/panels/factors/matrix";
import { limitOf, partsOf, remark } from "../../src/panels/factors/rate";
import {
  aboveChance,
  byShare,
  classShares,
  levelsOf,
  traceOf,
} from "../../src/panels/factors/responses";
import { DEFAULTS, models, view } from "../../src/state";
import { smallModel } from "../fixture";
import { normals } from "../random";

const model = await smallModel();

beforeEach(() => {
  models.value = new Map([[model.id, model]]);
  view.value = { ...DEFAULTS, open: [model.id], tab: "factors" };
});

describe("responses", () => {
  it("have the mean and the spread of the code at each value", () => {
    const levels = levelsOf(columnOf(model, "factor:0")!);
    const { means, spreads } = traceOf(model, model.variable(0), 0, levels);
    expect(means).toEqual([-2, -1, 0, 1, 2]);
    expect(spreads).toEqual([0, 0, 0, 0, 0]);
  });

  it("weigh back to the mean and the variance of all rows", () => {
    const levels = levelsOf(columnOf(model, "factor:1")!);
    const { means, spreads } = traceOf(model, model.variable(1), 1, levels);
    const values = columnOf(model, "z:1")!.values;
    const moment = (power: number) => values.reduce((sum, value) => sum + value ** power, 0) / 50;
    const weight = (n: number) => levels[n]!.rows.length / 50;
    expect(means.reduce((sum, mean, n) => sum + weight(n) * mean, 0)).toBeCloseTo(moment(1));
    expect(
      means.reduce((sum, mean, n) => sum + weight(n) * (mean ** 2 + spreads[n]! ** 2), 0),
    ).toBeCloseTo(moment(2));
  });

  it("cut a continuous factor into equally frequent bins, without the missing rows", () => {
    const values = normals(9, 1201);
    values[0] = NaN;
    const column: Column = {
      key: "",
      name: "",
      kind: "number",
      values,
      labels: [],
      dimension: null,
    };
    const levels = levelsOf(column);
    expect(levels).toHaveLength(12);
    levels.forEach(({ rows }) => expect(Math.abs(rows.length - 100)).toBeLessThanOrEqual(1));
    levels.slice(1).forEach(({ at }, n) => expect(at).toBeGreaterThan(levels[n]!.at));
    expect(levels.flatMap(({ rows }) => rows)).not.toContain(0);
  });

  it("of a discrete variable are shares of its classes", () => {
    const shares = classShares(model, model.variable(2), levelsOf(columnOf(model, "factor:1")!));
    expect(shares).toEqual([
      [1, 0, 0],
      [0, 1, 0],
      [0, 0, 1],
    ]);
  });
});

describe("the matrix", () => {
  it("ranks active variables only, as an unused one can follow a factor far below its noise", async () => {
    const other = await smallModel();
    other.shares[1 * 2] = 0.99; // z1, which is unused, about size
    expect(byShare(other, 0).map(({ name }) => name)).toEqual(["z0", "c"]);
    other.data.variables.forEach((variable) => (variable.active = false));
    expect(byShare(other, 0)[0]!.name).toBe("z1");
  });

  it("is above chance where Python says so, not where a share exceeds the mean of shuffles", async () => {
    const other = await smallModel();
    other.shares[0 * 2 + 1] = 0.03; // above the mean of 0.02, within its spread
    expect(aboveChance(other, 0, 1)).toBe(false);
    expect(aboveChance(other, 0, 0)).toBe(true);
  });

  it("leads to the variable, the next active one, and the colour of the factor", async () => {
    expect(byShare(model, 0)[0]!.name).toBe("z0");
    expect(linked(model, model.variable(0), 0)).toEqual({
      tab: "data",
      x: "z:0",
      y: "z:2",
      colour: "factor:0",
      box: null,
    });
    expect(linked(model, model.variable(1), 1)).toEqual({
      tab: "data",
      x: "z:1",
      y: "z:2",
      colour: "factor:1",
      box: null,
    });
    const alone = await smallModel();
    alone.data.variables.forEach((variable) => (variable.active = variable.number === 0));
    expect(linked(alone, alone.variable(0), 1)).toMatchObject({
      x: "z:0",
      y: "factor:1",
      colour: "factor:1",
    });
  });

  it("is a table of buttons", () => {
    const page = document.createElement("div");
    render(<Factors model={model} />, page);
    const cells = page.querySelectorAll<HTMLButtonElement>(".information button");
    expect([...cells].map((cell) => cell.getAttribute("aria-label"))).toEqual([
      "z0 explains 90% of size, the best variable",
      "z0 explains 2% of shape, not above chance",
      "c explains 1% of size, not above chance",
      "c explains 95% of shape, the best variable",
    ]);
    cells[3]!.click();
    expect(view.value).toMatchObject({ tab: "data", x: "z:2", colour: "factor:1" });
  });
});

describe("the rate", () => {
  it("is the sum of its parts", () => {
    const { rate } = model.data;
    expect(partsOf(rate).reduce((sum, { value }) => sum + value, 0)).toBeCloseTo(rate.rate);
    expect(remark(rate)).toBe("");
  });

  it("differs from the sum of estimates, which is said", () => {
    const { rate } = model.data;
    expect(remark({ ...rate, rate: 3.03 })).toBe(
      "The sum of the estimates differs from the rate by 0.03 nats.",
    );
    expect(remark({ ...rate, rate: 2.9 })).toContain("0.10 nats");
    expect(remark({ ...rate, factorised: false })).toContain("need not sum");
  });

  it("warns of a mutual information near log N", () => {
    const { rate } = model.data;
    expect(limitOf({ ...rate, mutualInformation: 0.89 * Math.log(450) }, 450)).toBe("");
    expect(limitOf({ ...rate, mutualInformation: 0.91 * Math.log(450) }, 450)).toContain(
      "log 450 = 6.11 nats",
    );
  });

  it("claims no dependence where the total correlation has what the limit leaves over", () => {
    const { rate } = model.data;
    const meaning = (share: number) =>
      partsOf({ ...rate, mutualInformation: share * Math.log(50) }, 50)[1]!.meaning;
    expect(meaning(0.89)).toContain("depend on each other");
    expect(meaning(0.91)).not.toContain("disentangled");
    expect(meaning(0.91)).toContain("Not a measure of dependence here");
  });

  it("is shown for data without factors, which is said plainly", async () => {
    const other = await smallModel();
    other.data.factors.length = 0;
    const page = document.createElement("div");
    render(<Factors model={other} />, page);
    expect(page.textContent).toContain("no known factors");
    expect(page.textContent).toContain(
      "rate 3.00 ≈ mutual information 2.50 + total correlation 0.30",
    );
    expect(page.querySelector(".information")).toBeNull();
  });
});
