import { render } from "preact";
import { act } from "preact/test-utils";
import { describe, expect, it } from "vitest";
import type { Variable } from "../src/bundle";
import { Model, withClass } from "../src/model";
import { moved } from "../src/panels/classes";
import { axisOptions } from "../src/panels/data/columns";
import { gridCodes, optionName, variablesOf } from "../src/panels/grid";
import { endsOf, farthest, interpolated, nearestShare } from "../src/panels/interpolate";
import { beyond, pressed, spreadOf } from "../src/panels/slider";
import { nested, Sliders, VariableName } from "../src/panels/sliders";
import { neighbour } from "../src/panels/tiles";
import { classesClause, currentStep, taken, Traversals } from "../src/panels/traversals";
import { DEFAULTS, models, view } from "../src/state";
import { nearest } from "../src/ui/vector";
import { comparable, limits } from "../src/ui/vector-scale";
import { smallModel } from "./fixture";

const model = await smallModel();
const [z0, z1, c] = [model.variable(0), model.variable(1), model.variable(2)];

describe("sliders", () => {
  it("stand in the groups of the latent tree, each where its first variable is", () => {
    const at = (number: number, ...groups: string[]): Variable => ({ ...z0, number, groups });
    const items = nested([at(0, "a", "b"), at(1), at(2, "a"), at(3, "a", "b"), at(4, "c")]);
    const form = (list: typeof items): unknown[] =>
      list.map((item) => ("group" in item ? [item.group, form(item.items)] : item.number));
    expect(form(items)).toEqual([["a", [["b", [0, 3]], 2]], 1, ["c", [4]]]);
  });

  it("go by keys and stay in their range", () => {
    expect(pressed("ArrowRight", 0.5)).toBeCloseTo(0.6);
    expect(pressed("PageDown", -2.8)).toBe(-3);
    expect(pressed("End", 0)).toBe(3);
    expect(pressed("a", 0)).toBeNull();
  });

  it("tell on which side of their range a value lies", () => {
    expect([-3.01, -3, 0, 3, 3.01].map((value) => beyond(z0.quantiles[0]!, value))).toEqual([
      -1, 0, 0, 0, 1,
    ]);
  });

  it("lie over shares of the data that sum to one, with codes beyond their ends apart", () => {
    const spread = spreadOf([-9, -3, -2.9, 0.1, 3, 99, 98, 97], z0.quantiles[0]!);
    expect([spread.below, spread.above]).toEqual([1 / 8, 3 / 8]);
    expect(spread.bins.filter((share) => share > 0)).toEqual([2 / 8, 1 / 8, 1 / 8]);
    expect(spreadOf([], z0.quantiles[0]!).above).toBe(0);
  });

  it("say how many codes lie beyond their range, where they would look constant", async () => {
    const far = await smallModel();
    const { size, rows } = far.data;
    for (let row = 0; row < rows.count; row++) far.means[row * size] = row % 2 ? 9 : -9;
    models.value = new Map([[far.id, far]]);
    view.value = { ...DEFAULTS, open: [far.id] };
    const page = document.createElement("div");
    render(<Sliders model={far} />, page);
    const first = page.querySelector('[data-variable="0"]')!;
    expect(first.textContent).toContain("100% of the codes lie beyond this slider");
    expect(first.querySelectorAll(".outside")).toHaveLength(2);
    render(<Sliders model={model} />, page);
    expect(page.querySelectorAll(".outside")).toHaveLength(0);
  });

  it("show a factor in blue if its share is above chance, and otherwise in grey", async () => {
    const page = document.createElement("div");
    const shown = (aboveChance: boolean) => {
      const variable = { ...z0, factor: "stain", share: 0.18, aboveChance };
      render(<VariableName variable={variable} />, page);
      const label = page.querySelector(".factor")!;
      expect(label.textContent).toBe("explains 18% of stain");
      return label.classList.contains("weak");
    };
    expect([shown(true), shown(false)]).toEqual([false, true]);
  });

  it("that do not fit on a small screen are folded", () => {
    const page = document.createElement("div");
    act(() => render(<Sliders model={model} most={1} />, page));
    const folded = page.querySelector("details")!;
    expect(page.querySelectorAll(".control")).toHaveLength(1);
    expect(folded.textContent).toBe(`${model.active.length - 1} more variable`);
  });

  it("of classes go round", () => {
    expect(moved("ArrowRight", 2, 3, 0)).toBe(0);
    expect(moved("ArrowUp", 0, 3, 0)).toBe(2);
    expect(moved("Delete", 0, 3, 1)).toBe(1);
    expect(moved("Tab", 0, 3, 1)).toBeNull();
  });
});

describe("traversals", () => {
  it("of a model without information say why there are none", async () => {
    const other = await smallModel();
    for (const variable of other.data.variables) variable.active = false;
    const unused = new Model(other.bundle);
    expect(unused.active).toEqual([]);
    const page = document.createElement("div");
    act(() => render(<Traversals model={unused} />, page));
    expect(page.textContent).toContain("so there is nothing to traverse");
    expect(page.querySelectorAll("button, select")).toHaveLength(0);
  });
});

describe("a grid", () => {
  it("offers variables with what they explain, if that is above chance", () => {
    const named = "z0 (explains 52% of stain)";
    const offered = (aboveChance: boolean) => {
      const variable = { ...z0, name: "z0", factor: "stain", share: 0.52, aboveChance };
      const variables = [variable, ...model.data.variables.slice(1)];
      const other = { ...model, data: { ...model.data, variables } } as Model;
      return [optionName(variable), axisOptions(other).find(({ key }) => key === "z:0")!.name];
    };
    expect(offered(true)).toEqual([named, named]);
    expect(offered(false)).toEqual(["z0", "z0"]);
  });

  const codes = gridCodes(z0, c, model.code(0), 5);

  it("has all pairs, the highest of the second variable first", () => {
    expect(codes).toHaveLength(15);
    expect(codes.map((z) => Math.round(z[0]!)).slice(0, 5)).toEqual([-2, -1, 0, 1, 2]);
    expect(codes[0]!.slice(2)).toEqual([0, 0, 1]);
    expect(codes[14]!.slice(2)).toEqual([1, 0, 0]);
    expect(codes.every((z) => z[1] === model.code(0)[1])).toBe(true);
  });

  it("has two different variables that the model has", () => {
    expect(variablesOf(model, null)?.map(({ number }) => number)).toEqual([0, 2]);
    expect(variablesOf(model, [1, 2])).toEqual([z1, c]);
    expect(variablesOf(model, [99, 2])).toEqual([z0, c]);
    expect(variablesOf(model, [2, 2])).toEqual([z0, c]);
  });

  it("has the horizontal place across and the vertical one up", async () => {
    const other = await smallModel();
    const shown = (...factors: string[]) => {
      factors.forEach((factor, n) => (other.data.variables[n]!.factor = factor));
      return variablesOf(other, null)!.map(({ number }) => number);
    };
    expect(shown("posY", "posX")).toEqual([2, 0]);
    expect(shown("position y", "size")).toEqual([2, 0]);
    expect(shown("size", "X")).toEqual([2, 0]);
    expect(shown("pos_x", "pos_y")).toEqual([0, 2]);
    expect(shown("matrix", "y")).toEqual([0, 2]);
    expect(shown("x", "x")).toEqual([0, 2]);
    expect(variablesOf(other, [0, 2])!.map(({ number }) => number)).toEqual([0, 2]);
  });

  it("gives a click's values of both variables and keeps the others", () => {
    const now = model.code(3);
    const z = taken(c, taken(z0, now, codes[4]!), codes[4]!);
    expect(z[0]).toBeCloseTo(2);
    expect([z[1], z.slice(2)]).toEqual([now[1], [0, 0, 1]]);
  });

  it("lets arrow keys go to neighbours, not round the edge", () => {
    expect(
      ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].map((key) => neighbour(key, 4, 3, 9)),
    ).toEqual([3, 5, 1, 7]);
    expect(["ArrowLeft", "ArrowUp"].map((key) => neighbour(key, 0, 3, 9))).toEqual([null, null]);
    expect(["ArrowRight", "ArrowDown"].map((key) => neighbour(key, 8, 3, 9))).toEqual([null, null]);
  });
});

it("help speaks of classes only if a variable has some", () => {
  expect(classesClause([z0, z1])).toBe("");
  expect(classesClause([z0, c])).toContain("classes");
});

it("the current step of a traversal is the nearest one", () => {
  const codes = [-2, -1, 0, 1, 2].map((value) => [value, 0, 1, 0, 0]);
  expect(currentStep(z0, codes, [0.6, 0, 1, 0, 0])).toBe(3);
  expect(currentStep(z0, codes, [-2.2, 0, 1, 0, 0])).toBe(0);
  expect(currentStep(z0, codes, [-9, 0, 1, 0, 0])).toBe(-1);
  const classes = [2, 1, 0].map((n) => withClass(c, [0, 0, 0, 0, 0], n));
  expect(currentStep(c, classes, [0, 0, 0.2, 0.3, 0.5])).toBe(0);
});

describe("an interpolation", () => {
  const [from, to] = [
    [0, 2, 1, 0, 0],
    [4, -2, 0, 0, 1],
  ];
  const at = (share: number) => interpolated(model.data.variables, from, to, share);

  it("starts and ends at its ends, is linear, and switches classes in the middle", () => {
    expect(at(0)).toEqual(from);
    expect(at(1)).toEqual(to);
    expect(at(0.25)).toEqual([1, 1, 1, 0, 0]);
    expect(at(0.75)).toEqual([3, -1, 0, 0, 1]);
  });

  it("goes at first to an observation that is unlike the start", () => {
    const rows = Array.from({ length: 50 }, (_, row) => row);
    const away = (row: number) => {
      const [one, other] = [model.code(0), model.code(row)];
      return Math.hypot(...one.map((z, column) => z - other[column]!));
    };
    const found = farthest(model, 0);
    rows.forEach((row) => expect(away(row)).toBeLessThanOrEqual(away(found)));
    expect(endsOf(model, null)).toEqual([0, found]);
  });

  it("of equal ends does not divide by zero", () => {
    expect(nearestShare(from, from, to)).toBe(0);
  });

  it("finds the place of a code on the path", () => {
    const straight = (share: number) => [share * 4, 2 - share * 4, 1, 0, 0];
    expect(nearestShare(straight(0), straight(1), straight(0.3))).toBeCloseTo(0.3);
    expect(nearestShare(straight(0), straight(1), straight(-2))).toBe(0);
  });
});

describe("charts of vectors", () => {
  it("keep the limits of the data until a value lies beyond", () => {
    expect(limits([0, 2], [[0.5, 1]], false, false)).toEqual([0, 2]);
    expect(limits([0, 2], [[0.5, 3]], false, false)).toEqual([0, 3]);
    expect(limits([0, 2], [[0.1, -0.4]], true, false)).toEqual([-1, 1]);
    expect(limits(null, [[5, 5]], false, false)).toEqual([4, 6]);
  });

  it("find the column nearest to the pointer", () => {
    const places = [0, 1, 5, 20];
    expect([-3, 0.4, 2.9, 3.1, 99].map((x) => nearest(4, (n) => places[n]!, x))).toEqual([
      0, 0, 1, 2, 3,
    ]);
    expect(nearest(1, () => 0, 5)).toBe(0);
  });

  it("put columns with units of their own on the network's scale", () => {
    const seen = {
      kind: "vector" as const,
      length: 2,
      names: ["a", "b"],
      positions: null,
      curve: false,
      counts: false,
      units: { scale: [2, 100], shift: [1, 50], clip: false },
    };
    expect(comparable(seen, [3, 150])).toEqual([1, 1]);
    expect(comparable(seen, [2, 100], true)).toEqual([1, 1]);
    expect(
      comparable({ ...seen, units: { scale: [2], shift: [1], clip: false } }, [3, 150]),
    ).toEqual([3, 150]);
  });
});
