import { describe, expect, it } from "vitest";
import { follow, sameRow } from "../src/linked";
import {
  assign,
  counts,
  LEAST_ROWS,
  likeliest,
  matching,
  mutualInformation,
  pearson,
  ranks,
  units,
} from "../src/matching";
import { Model } from "../src/model";
import type { ModelData } from "../src/bundle";
import { NORMAL, smallModel, writeBundle } from "./fixture";

/** Numbers in [0, 1) that are the same in every run of the tests. */
function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The largest sum of weights over all ways to pair rows with columns. */
function bruteForce(weights: number[][], row = 0, taken: ReadonlySet<number> = new Set()): number {
  if (row === weights.length) return 0;
  const columns = weights[0]!.length;
  const spare = weights.length > columns ? bruteForce(weights, row + 1, taken) : -Infinity;
  let best = spare;
  for (let j = 0; j < columns; j++) {
    if (!taken.has(j))
      best = Math.max(
        best,
        weights[row]![j]! + bruteForce(weights, row + 1, new Set([...taken, j])),
      );
  }
  return best === -Infinity ? 0 : best;
}

const spearman = (a: readonly number[], b: readonly number[]) => pearson(ranks(a), ranks(b));

describe("the assignment", () => {
  const random = randoms(1);
  const shapes = [
    [1, 1],
    [2, 2],
    [3, 5],
    [5, 3],
    [5, 5],
    [6, 4],
  ] as const;
  it.each(shapes)("of %i rows and %i columns is the best of all", (rows, columns) => {
    for (let trial = 0; trial < 20; trial++) {
      // Few distinct weights, so that ties come up too.
      const weights = Array.from({ length: rows }, () =>
        Array.from({ length: columns }, () => Math.floor(random() * 6) / 5),
      );
      const pairs = assign(weights);
      expect(pairs).toHaveLength(Math.min(rows, columns));
      expect(new Set(pairs.map(([i]) => i)).size).toBe(pairs.length);
      expect(new Set(pairs.map(([, j]) => j)).size).toBe(pairs.length);
      const total = pairs.reduce((sum, [i, j]) => sum + weights[i]![j]!, 0);
      expect(total).toBeCloseTo(bruteForce(weights), 9);
    }
  });

  it("of nothing is empty", () => {
    expect(assign([])).toEqual([]);
    expect(assign([[], []])).toEqual([]);
  });
});

describe("Spearman's correlation", () => {
  it("gives equal values the mean of their ranks", () => {
    expect(ranks([10, 20, 20, 5, 20])).toEqual([2, 4, 4, 1, 4]);
  });

  it("does not change under increasing functions", () => {
    const x = [0.3, -1, 2, 0.9, -0.5];
    expect(
      spearman(
        x,
        x.map((value) => Math.exp(3 * value)),
      ),
    ).toBeCloseTo(1, 12);
    expect(
      spearman(
        x,
        x.map((value) => -(value ** 3)),
      ),
    ).toBeCloseTo(-1, 12);
  });

  it("without ties is 1 - 6 sum d^2 / (n (n^2 - 1))", () => {
    const [a, b] = [
      [1, 2, 3, 4, 5],
      [2, 1, 4, 3, 5],
    ];
    expect(spearman(a, b)).toBeCloseTo(1 - (6 * 4) / (5 * 24), 12);
  });

  it("with ties is Pearson's correlation of the mean ranks", () => {
    // Ranks 1.5 1.5 3 4 and 1 2 3.5 3.5: sum of products 4, sums of squares 4.5.
    expect(spearman([1, 1, 2, 3], [1, 2, 3, 3])).toBeCloseTo(4 / 4.5, 12);
  });

  it("with a constant is 0", () => {
    expect(spearman([1, 1, 1], [1, 2, 3])).toBe(0);
  });
});

describe("normalised mutual information", () => {
  it("is 1 for renamed classes and 0 for independent ones", () => {
    expect(mutualInformation(counts([0, 1, 2, 0], [2, 0, 1, 2], 3, 3))).toBeCloseTo(1, 12);
    expect(mutualInformation(counts([0, 0, 1, 1], [0, 1, 0, 1], 2, 2))).toBeCloseTo(0, 12);
  });

  it("of halves and quarters is 2 ln 2 / (ln 2 + ln 4)", () => {
    expect(mutualInformation(counts([0, 0, 1, 1], [0, 1, 2, 3], 2, 4))).toBeCloseTo(2 / 3, 12);
  });
});

const ROWS = 200;

/** A model of `size` independent normal variables; column j is sign * column from[j] of the data. */
async function permuted(
  from: number[],
  signs: number[],
  shuffle = 1,
  data = "shapes",
): Promise<Model> {
  const template = (await smallModel()).data;
  const random = randoms(7);
  const codes = Array.from({ length: ROWS }, () =>
    from.map(() => random() + random() + random() - 1.5),
  );
  const index = Array.from({ length: ROWS }, (_, n) => (n * shuffle) % ROWS);
  const bundle = await writeBundle((add): ModelData => ({
    ...template,
    data,
    size: from.length,
    variables: from.map((_, n) => ({
      ...template.variables[0]!,
      number: n,
      name: `z${n}`,
      columns: [n, n + 1],
      quantiles: [NORMAL],
    })),
    shares: add([], [0]),
    rows: {
      ...template.rows,
      count: ROWS,
      index,
      mean: add(
        index.flatMap((row) => from.map((j, n) => signs[n]! * codes[row]![j]!)),
        [ROWS, from.length],
      ),
      factors: add([], [0]),
    },
  }));
  return new Model(bundle);
}

describe("matching", () => {
  it("recovers a permutation and signs, whatever the order of the rows", async () => {
    const first = await permuted([0, 1, 2, 3], [1, 1, 1, 1]);
    const other = await permuted([2, 0, 3, 1], [-1, 1, 1, -1], 7);
    const { matches, rows } = matching(first, other);
    expect(rows).toBe(ROWS);
    const found = matches.map(({ first, other }) => [first.column, other.column]);
    expect(found).toEqual([
      [0, 1],
      [1, 3],
      [2, 0],
      [3, 2],
    ]);
    [1, -1, -1, 1].forEach((sign, n) => expect(matches[n]!.association).toBeCloseTo(sign, 6));
  });

  it("leaves weak correlations unmatched", async () => {
    const first = await permuted([0, 1], [1, 1]);
    const other = await permuted([0, 0], [1, 1]);
    const { matches } = matching(first, other);
    expect(matches).toHaveLength(1);
    expect(matches[0]!.first.column).toBe(0);
  });

  it("leaves unused variables out, however they correlate", async () => {
    const first = await permuted([0, 1], [1, 1]);
    const other = await permuted([0, 1], [1, 1]);
    other.data.variables[0]!.active = false;
    expect(matching(first, other).matches.map(({ other }) => other.name)).toEqual(["z1"]);
    const [unused] = (await smallModel()).data.variables.filter(({ active }) => !active);
    expect(units(await smallModel()).map(({ name }) => name)).not.toContain(unused!.name);
  });

  it("needs the same data, and enough rows", async () => {
    const first = await permuted([0, 1], [1, 1]);
    expect(matching(first, await permuted([0, 1], [1, 1], 1, "faces"))).toEqual({
      matches: [],
      rows: 0,
    });
    const few = await permuted([0, 1], [1, 1]);
    few.data.rows.index = few.data.rows.index.map((n) => n + ROWS - LEAST_ROWS + 1);
    expect(matching(first, few)).toEqual({ matches: [], rows: LEAST_ROWS - 1 });
  });

  it("matches discrete variables by their classes", async () => {
    const { matches } = matching(await smallModel("a"), await smallModel("b", -1));
    const classes = matches.find(({ first }) => first.name === "c")!;
    expect(classes.other.name).toBe("c");
    expect(classes.association).toBeCloseTo(1, 12);
    expect(classes.classes).toEqual([0, 1, 2]);
  });
});

describe("linked sliders", () => {
  it("move the matched variable by as many scores, with the sign", async () => {
    const [first, other] = [await permuted([0, 1], [1, 1]), await permuted([1, 0], [1, -1], 3)];
    const row = sameRow(first, 5, other)!;
    expect(other.data.rows.index[row]).toBe(first.data.rows.index[5]);
    const [before, own] = [first.code(5), other.code(row)];
    expect(follow(matching(first, other).matches, before, before, own)).toEqual(own);
    const after = [before[0]! + 0.5, before[1]!];
    const moved = follow(matching(first, other).matches, before, after, own);
    expect(moved[0]).toBe(own[0]);
    expect(moved[1]! - own[1]!).toBeCloseTo(-0.5, 5);
  });

  it("leave the class where no common observation tells which one goes with it", async () => {
    expect(
      likeliest([
        [0, 3],
        [0, 0],
      ]),
    ).toEqual([1, null]);
    const [first, other] = [await smallModel("a"), await smallModel("b")];
    const found = matching(first, other).matches.map((match) => ({
      ...match,
      classes: match.classes.map((c) => (c === 2 ? null : c)),
    }));
    const unseen = [...first.code(0).slice(0, 2), 0, 0, 1];
    expect(follow(found, first.code(0), unseen, other.code(0))).toEqual(other.code(0));
  });

  it("choose the class that goes with the class", async () => {
    const [first, other] = [await smallModel("a"), await smallModel("b", -1)];
    const after = [...first.code(0).slice(0, 2), 0, 0, 1];
    const moved = follow(matching(first, other).matches, first.code(0), after, other.code(0));
    expect(moved.slice(2)).toEqual([0, 0, 1]);
  });
});
