import { describe, expect, it } from "vitest";
import type { RunData, Setting } from "../src/bundle";
import { axisOf, spansDecades } from "../src/panels/runs/axis";
import {
  allColumns,
  betterText,
  compareValues,
  differing,
  mostInformative,
  noEvidence,
  tableColumns,
  titleOf,
  usualColumns,
} from "../src/panels/runs/columns";
import { band, curveOf, termsOf, valueAtStep } from "../src/panels/runs/curves";
import { columnText, plainValue, settingName } from "../src/panels/runs/names";
import { outwards, parseFilter, rangeOf, withRange, withValue } from "../src/panels/runs/filter";
import { groupSeeds, summary } from "../src/panels/runs/groups";
import { runData } from "./fixture";

function run(
  id: string,
  settings: Record<string, Setting>,
  scores: Record<string, number> = {},
): RunData {
  const log = { step: [0, 10, 20], terms: { rate: [1, null, 3] } };
  const measures = { step: [20], terms: { "validation/r2": [0.5] } };
  const final = { rate: 2.5 };
  return runData(id, { settings, scores, log, measures, final, step: 20, steps: 20 });
}

const RUNS = [
  run(
    "a",
    { objective: "beta-vae", "objective.beta": 4, seed: 0, steps: 20, fast: true },
    { "mig/chen2018": 0.2, sap: 0.1 },
  ),
  run(
    "b",
    { objective: "beta-vae", "objective.beta": 4, seed: 1, steps: 20, fast: true },
    { "mig/chen2018": 0.4 },
  ),
  run(
    "c",
    { objective: "beta-vae", "objective.beta": 16, seed: 0, steps: 20, fast: true },
    { "mig/chen2018": 0.5 },
  ),
  run(
    "d",
    { objective: "factor vae", "objective.gamma": 6, seed: 0, steps: 20, fast: true },
    { "mig/chen2018": 0.6 },
  ),
];

function found(filter: string): string {
  const test = parseFilter(filter, allColumns(RUNS, {}));
  return RUNS.filter(test)
    .map(({ id }) => id)
    .join("");
}

describe("the filter", () => {
  it.each([
    ["", "abcd"],
    ["objective.beta=4", "ab"],
    ["beta=4.0", "ab"],
    ["beta!=4", "cd"],
    ["mig>0.4", "cd"],
    ["mig >= 0.4", "bcd"],
    ["mig/chen2018<=0.4 seed=1", "b"],
    ["mig<1e-1", ""],
    ['objective="factor vae"', "d"],
    ["OBJECTIVE=Beta-VAE seed=0", "ac"],
    ["factor", "d"],
    ['"run c"', "c"],
    ["gamma=-", "abc"],
    ["fast=true beta>4", "c"],
    ["state=finished step>=20", "abcd"],
    ["sap<1", "a"],
    ["r2>=0.5 rate>2", "abcd"],
  ])("%s finds %s", (filter, runs) => {
    expect(found(filter)).toBe(runs);
  });

  it.each([
    ["mig>", "has no value"],
    [">3", "has no name"],
    ["mig>high", "not a number"],
    ["nothing=3", "No setting or score is called “nothing”"],
    ["chen=3", "for example, mig/chen2018"],
    ['"open', "not closed"],
  ])("%s: %s", (filter, message) => {
    expect(() => found(filter)).toThrow(message);
  });

  it("asks which of two is meant", () => {
    const one = run("a", { "a.size": 1, "b.size": 2 });
    expect(() => parseFilter("size=1", allColumns([one], {}))).toThrow("a.size or b.size");
    const other = run("b", { "a.size": 3, "b.size": 2 });
    expect([one, other].filter(parseFilter("size=3", allColumns([one, other], {})))).toEqual([
      other,
    ]);
  });

  it("takes bounds from brushes, and gives them back", () => {
    const text = withRange("beta-vae seed=0", "mig/chen2018", 0.1, 0.3);
    expect(text).toBe("beta-vae seed=0 mig/chen2018>=0.1 mig/chen2018<=0.3");
    expect(rangeOf(text, "mig/chen2018")).toEqual({ low: 0.1, high: 0.3, value: null });
    expect(withRange(text, "mig/chen2018", null, null)).toBe("beta-vae seed=0");
    expect(withValue("", "objective", "factor vae")).toBe('objective="factor vae"');
    expect(rangeOf('objective="factor vae"', "objective").value).toBe("factor vae");
  });
});

describe("a filter that is changed", () => {
  it("keeps bounds to the last digit", () => {
    const text = withRange("", "mig", 0.123456789, 1e-9);
    expect(rangeOf(text, "mig")).toEqual({ low: 0.123456789, high: 1e-9, value: null });
  });

  it("keeps any text of a value", () => {
    for (const value of ['a "b" c', 'say "hi"', "back\\slash", 'end\\" =', "", 'x"']) {
      const [one] = [run("a", { note: value, seed: 0 })];
      const text = withValue("seed=0", "note", value);
      expect(rangeOf(text, "note").value).toBe(value);
      expect(parseFilter(text, allColumns([one!], {}))(one!)).toBe(true);
      expect(withValue(text, "note", null)).toBe("seed=0");
    }
  });

  it.each(["seed=0 mig>", 'seed=0 "open', "seed=0 >3 beta-vae"])(
    "keeps everything of %s",
    (mistaken) => {
      const text = withRange(mistaken, "sap", 1, null);
      expect(rangeOf(text, "sap").low).toBe(1);
      expect(rangeOf(text, "seed").value).toBe("0");
      expect(withRange(text, "sap", null, null)).toBe(mistaken);
    },
  );

  it("takes brushes in few digits that leave nothing out", () => {
    for (const value of [0.123456, -0.123456, 0.3, 1234567.8, -9.99999e-7, 0.99996, 5]) {
      const [low, high] = [outwards(value, "low"), outwards(value, "high")];
      expect(low).toBeLessThanOrEqual(value);
      expect(high).toBeGreaterThanOrEqual(value);
      expect(high - low).toBeLessThanOrEqual(1.0001e-3 * Math.abs(value));
      expect(String(+low.toPrecision(4))).toBe(String(low));
    }
  });
});

describe("columns", () => {
  it("of settings are those that tell runs apart", () => {
    const [a, b, c, d] = RUNS.map(({ settings }) => settings) as [
      Record<string, Setting>,
      ...Record<string, Setting>[],
    ];
    expect(differing([a, d!])).toEqual(["objective"]);
    expect(differing([a, b!, c!, d!])).toEqual(["objective", "objective.beta"]);
    expect(tableColumns(RUNS, {}).map(({ key }) => key)).toEqual([
      "name",
      "state",
      "objective",
      "objective.beta",
      "seed",
      "rate",
      "validation/r2",
      "mig/chen2018",
      "sap",
    ]);
  });

  it("have names to read, and exact ones", () => {
    const terms = {
      "mig/chen2018": { name: "MIG · chen2018", unit: "", better: "higher" as const },
      rate: { name: "rate", unit: "nats", better: "" as const },
    };
    const columns = new Map(tableColumns(RUNS, terms).map((column) => [column.key, column]));
    expect([
      titleOf(columns.get("mig/chen2018")!),
      betterText(columns.get("mig/chen2018")!),
    ]).toEqual(["MIG · chen2018", "higher is better"]);
    expect([titleOf(columns.get("rate")!), betterText(columns.get("rate")!)]).toEqual([
      "rate (nats)",
      "",
    ]);
    expect([columns.get("rate")!.value(RUNS[0]!), columns.get("sap")!.name]).toEqual([2.5, "sap"]);
    expect(
      ["objective.beta.start", "optimiser.lr", "latent.size", "batch_size", "data"].map(
        settingName,
      ),
    ).toEqual(["beta start", "learning rate", "latent size", "batch size", "data"]);
  });

  it("of the table are at first those that differ and that most runs have", () => {
    const keys = (runs: RunData[]) =>
      usualColumns(tableColumns(runs, {}), runs).map(({ key }) => key);
    expect(keys(RUNS)).toEqual([
      "name",
      "objective",
      "objective.beta",
      "seed",
      "rate",
      "mig/chen2018",
    ]);
    expect(keys([RUNS[0]!])).toEqual(["name", "rate", "mig/chen2018", "sap"]);
    const protocols = RUNS.slice(0, 2).map((each) => ({
      ...each,
      state: each.id === "a" ? ("stopped" as const) : each.state,
      scores: { "mig/a": 1, "mig/b": 2, "sap/a": 3 },
    }));
    expect(keys(protocols)).toEqual(["name", "state", "seed", "rate", "mig/a", "sap/a"]);
  });

  it("say which scores are no evidence, and why", () => {
    const reason = "only one factor can be scored";
    const scored = (id: string, ...keys: string[]) =>
      runData(id, {
        scores: { "mig/a": 1, "sap/a": 0.5 },
        noEvidence: Object.fromEntries(keys.map((key) => [key, reason])),
      });
    const names = (runs: RunData[]) =>
      tableColumns(runs, {})
        .filter(({ kind }) => kind === "score")
        .map(({ name, unproven }) => [name, unproven ?? false]);
    const both = [scored("a", "mig/a", "sap/a"), scored("b", "mig/a")];
    expect(names(both)).toEqual([
      ["mig/a (no evidence)", true],
      ["sap/a", false],
    ]);
    expect(noEvidence(both, tableColumns(both, {}))).toEqual([
      `${reason} (all scores in 2 of 2 runs)`,
    ]);
    expect(noEvidence([scored("c")], [])).toEqual([]);
  });

  it("write values as people do", () => {
    expect(
      [
        '["square", "heart"]',
        "[128, 64]",
        "[]",
        '[[0,1],[1,0],{"a":null},null]',
        "linear",
        "[odd",
        true,
        null,
        0.00012346,
        -2.5,
      ].map(plainValue),
    ).toEqual([
      "square, heart",
      "128, 64",
      "none",
      '[0,1], [1,0], {"a":null}, –',
      "linear",
      "[odd",
      "yes",
      "–",
      "0.0001235",
      "−2.5",
    ]);
  });

  it("have as many decimals in every row, and enough digits to tell runs apart", () => {
    const written = (values: number[]) => values.map(columnText(values));
    expect(written([0.5622445, 1, 0])).toEqual(["0.562", "1.000", "0.000"]);
    expect(written([14.0904, -0.0001, -3])).toEqual(["14.09", "0.00", "−3.00"]);
    expect(written([6674.99, 6668.1])).toEqual(["6675", "6668"]);
    expect(written([0.00041234, -0.0004, 0])).toEqual(["0.0004123", "−0.0004", "0"]);
    expect(written([0.01, 0.0004])).toEqual(["0.010", "0.000"]);
    expect(written([0])).toEqual(["0.000"]);
    expect(written([])).toEqual([]);
  });

  it("of any name have only what is stored under it", () => {
    const names = ["__proto__", "constructor", "hasOwnProperty"];
    for (const name of names) {
      const record = <T>(value: T) => JSON.parse(JSON.stringify({ x: value }).replace("x", name));
      const named = { ...run("a", record(4)), scores: record(0.5), log: RUNS[0]!.log };
      const others = allColumns([named, RUNS[0]!], {}).filter(({ key }) => key === name);
      expect(others.map((column) => [column.value(named), column.value(RUNS[0]!)])).toEqual([
        [4, undefined],
        [0.5, undefined],
      ]);
      expect(others.map((column) => [column.name, titleOf(column)])).toEqual([
        [settingName(name), settingName(name)],
        [name, name],
      ]);
      expect(settingName(`objective.${name}`)).toBe(name.replaceAll("_", " "));
      expect(curveOf({ ...named, log: { step: [1], terms: {} } }, `log:${name}`)).toEqual([]);
      expect(groupSeeds([named, run("b", {}), run("c", { beta: 1 })])).toHaveLength(3);
    }
  });

  it("of the highest entropy come first, in the order of the table", () => {
    const many = Array.from({ length: 8 }, (_, n) =>
      run(`${n}`, { rare: n === 0, beta: n, half: n % 2, ...(n === 0 ? { once: n } : {}) }),
    );
    const settings = allColumns(many, {}).filter(({ kind }) => kind === "setting");
    expect(mostInformative(settings, many, 2).map(({ key }) => key)).toEqual(["beta", "half"]);
    expect(mostInformative(settings, many, 9).map(({ key }) => key)).toEqual([
      "rare",
      "beta",
      "half",
    ]);
  });

  it("sort numbers before text and missing values last in both directions", () => {
    const values = ["b", 10, undefined, 9, "a", null];
    const up = [...values].sort((a, b) => compareValues(a, b, false));
    const down = [...values].sort((a, b) => compareValues(a, b, true));
    expect(up.slice(0, 4)).toEqual([9, 10, "a", "b"]);
    expect(down.slice(0, 4)).toEqual(["b", "a", 10, 9]);
  });
});

describe("groups of seeds", () => {
  it("have equal settings but for the seed", () => {
    const groups = groupSeeds(RUNS);
    expect(groups.map(({ runs }) => runs.map(({ id }) => id).join(""))).toEqual(["ab", "c", "d"]);
    expect(groups.map(({ name }) => name)).toEqual([
      "objective beta-vae, beta 4",
      "objective beta-vae, beta 16",
      "objective factor vae",
    ]);
  });

  it("are called by the fewest settings that tell them apart", () => {
    const betas = [1, 4, 16].map((beta) =>
      run(`${beta}`, { "objective.beta": beta, "warm-up": beta > 1, seed: 0 }),
    );
    expect(groupSeeds(betas).map(({ name }) => name)).toEqual(["beta 1", "beta 4", "beta 16"]);
    expect(groupSeeds([betas[0]!])[0]!.name).toBe("all runs");
    const without = [run("a", { "latent.size": 5 }), run("b", { "latent.size": 6 }), run("c", {})];
    expect(groupSeeds(without).map(({ name }) => name)).toEqual([
      "latent size 5",
      "latent size 6",
      "latent size –",
    ]);
  });

  it("do not depend on the order of settings", () => {
    expect(
      groupSeeds([run("a", { x: 1, y: 2, seed: 0 }), run("b", { seed: 1, y: 2, x: 1 })]),
    ).toHaveLength(1);
  });

  it("have a mean, a range and a standard deviation", () => {
    expect(summary([])).toBeNull();
    expect(summary([5])).toEqual({ mean: 5, min: 5, max: 5, deviation: 0, n: 1 });
    const { deviation, ...rest } = summary([2, 4, 4, 4, 5, 5, 7, 9])!;
    expect(rest).toEqual({ mean: 5, min: 2, max: 9, n: 8 });
    expect(deviation).toBeCloseTo(Math.sqrt(32 / 7), 12);
  });
});

describe("curves", () => {
  it("leave out missing values and are linear between points", () => {
    expect(termsOf(RUNS)).toEqual(["log:rate", "measures:validation/r2"]);
    const curve = curveOf(RUNS[0]!, "log:rate");
    expect(curve).toEqual([
      { step: 0, value: 1 },
      { step: 20, value: 3 },
    ]);
    expect(valueAtStep(curve, 5)).toBeCloseTo(1.5, 12);
    expect([valueAtStep(curve, -1), valueAtStep(curve, 21)]).toEqual([null, null]);
  });

  it("of one seed are their own mean without a band", () => {
    const curve = [
      { step: 1, value: 2 },
      { step: 3, value: 5 },
    ];
    for (const deviation of [false, true]) {
      const found = band([curve], deviation);
      expect(found).toEqual(
        curve.map(({ step, value }) => ({ step, mean: value, low: value, high: value, n: 1 })),
      );
    }
  });

  it("of parallel lines have a constant band", () => {
    const steps = [0, 5, 10];
    const curves = [-1, 0, 1].map((shift) =>
      steps.map((step) => ({ step, value: 2 * step + shift })),
    );
    for (const deviation of [false, true]) {
      for (const point of band(curves, deviation)) {
        expect(point.mean).toBeCloseTo(2 * point.step, 12);
        expect(point.high - point.mean).toBeCloseTo(1, 12);
        expect(point.mean - point.low).toBeCloseTo(1, 12);
      }
    }
  });

  it("that were logged at different steps are compared at all of them, where they are known", () => {
    const found = band(
      [
        [
          { step: 0, value: 0 },
          { step: 10, value: 10 },
        ],
        [{ step: 5, value: 7 }],
      ],
      false,
    );
    expect(found.map(({ step, n }) => [step, n])).toEqual([
      [0, 1],
      [5, 2],
      [10, 1],
    ]);
    expect(found[1]).toEqual({ step: 5, mean: 6, low: 5, high: 7, n: 2 });
  });
});

describe("an axis", () => {
  it("is logarithmic only over two decades of positive numbers", () => {
    expect(spansDecades([1, 100])).toBe(true);
    expect(spansDecades([1, 99])).toBe(false);
    expect(spansDecades([0, 100])).toBe(false);
    expect(spansDecades(["a", 100])).toBe(false);
    const axis = axisOf([1, 100], [0, 200], true);
    expect(axis.position(10)).toBeCloseTo(100, 9);
    expect(axis.position(0)).toBeNull();
    expect(axis.invert(100)).toBeCloseTo(10, 9);
  });

  it("of text has a place for every category, and none for missing values", () => {
    const axis = axisOf(["b", "a", "b", null], [0, 100]);
    expect([axis.position("a"), axis.position("b"), axis.position(null)]).toEqual([25, 75, null]);
  });

  it("of whole numbers has ticks at whole numbers only", () => {
    const texts = (values: number[]) => axisOf(values, [0, 100]).ticks.map(({ text }) => text);
    expect(texts([0, 1])).toEqual(["0", "1"]);
    expect(texts([0, 20_000])).toEqual(["0", "5,000", "10,000", "15,000", "20,000"]);
    expect(texts([0.5, 1])).toEqual(["0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]);
  });

  it("of one number has it in the middle", () => {
    expect(axisOf([3, 3], [0, 100]).position(3)).toBeCloseTo(50, 9);
  });
});
