import { render } from "preact";
import { describe, expect, it } from "vitest";
import type { VectorObservation } from "../src/bundle";
import { columnAfter, VectorChart, type Series } from "../src/ui/vector";
import { mostDifferent, ofColumns } from "../src/ui/vector-scale";
import { eventually, smallModel } from "./fixture";

const model = await smallModel();
const TABLE: VectorObservation = {
  kind: "vector",
  length: 3,
  names: ["age", "<b>income</b>", "height"],
  positions: null,
  curve: false,
  counts: false,
  units: { scale: [10, 20000, 0.1], shift: [40, 30000, 1.7], clip: false },
};
const observed: Series = { name: "observed", values: [30, 10000, 1.9], role: "behind" };

function drawn(seen: VectorObservation, series: Series[]): HTMLElement {
  const place = document.createElement("div");
  render(<VectorChart model={model} seen={seen} series={series} label="A row" />, place);
  return place;
}

describe("bars of a table", () => {
  const place = drawn(TABLE, [
    { name: "decoded", values: [50, 30000, 1.6], role: "main" },
    observed,
  ]);
  const texts = Array.from(place.querySelectorAll("text"), (text) => text.textContent);

  it("have the names of columns as text, and values in the user's units", () => {
    expect(texts).toEqual(["age", "50", "<b>income</b>", "30000", "height", "1.6"]);
  });

  it("share one scale although columns have units of their own", () => {
    const bars = Array.from(
      place.querySelectorAll<SVGRectElement>(".bar.main"),
      (bar) => +bar.getAttribute("width")!,
    );
    expect(bars[0]).toBeCloseTo(bars[2]!); // one scale above and below
    expect(bars[1]).toBeCloseTo(0); // at the shift
  });

  it("have a stroke at the observed value", () => {
    const strokes = Array.from(
      place.querySelectorAll<SVGRectElement>(".bar.behind"),
      (bar) => +bar.getAttribute("x")!,
    );
    expect(strokes[0]).toBeCloseTo(strokes[1]!); // one scale below
    expect(strokes[2]).toBeGreaterThan(strokes[0]!);
  });
});

it("counts lie at log(1 + x), with decades on the axis", () => {
  const names = Array.from({ length: 30 }, (_, n) => `gene ${n}`);
  const seen = {
    ...TABLE,
    length: 30,
    names,
    counts: true,
    units: { scale: [1], shift: [0], clip: false },
  };
  const place = drawn(seen, [
    {
      name: "decoded",
      values: names.map((_, n) => (n % 3 === 0 ? 0 : n % 3 === 1 ? 9 : 99)),
      role: "main",
    },
  ]);
  const ends = Array.from(
    place
      .querySelector("path")!
      .getAttribute("d")!
      .matchAll(/,([\d.]+)V([\d.]+)/g),
    ([, zero, value]) => +zero! - +value!,
  );
  expect(ends[0]).toBeCloseTo(0);
  expect(ends[2]! / ends[1]!).toBeCloseTo(2); // log 100 and log 10
  const texts = Array.from(place.querySelectorAll("text"), (text) => text.textContent);
  expect(texts).toEqual(["0", "1", "10", "gene 0", "gene 29", "count of each column, log scale"]);
});

describe("a path of a table", () => {
  const wide = { ...TABLE, length: 30, names: Array.from({ length: 30 }, (_, n) => `gene ${n}`) };
  const units = { scale: [...Array<number>(29).fill(1), 1000], shift: [0], clip: false };

  it("shows the columns that change most in units of their own, the most first", () => {
    const ends = [0, 1].map((end) => wide.names.map((_, n) => end * (n === 7 ? -5 : n / 10)));
    expect(mostDifferent({ ...wide, units }, ends, 3)).toEqual([7, 28, 27]); // 29 is 0.003 units
  });

  it("compares counts by their ratio", () => {
    const counts = { ...wide, counts: true, units: { scale: [1], shift: [0], clip: false } };
    const ends = [0, 1].map((end) =>
      wide.names.map((_, n) => (n === 3 ? 9 * end : 500 + 99 * end)),
    );
    expect(mostDifferent(counts, ends, 1)).toEqual([3]);
  });

  it("has the names, units and positions of its columns", () => {
    const part = ofColumns({ ...wide, units, positions: wide.names.map((_, n) => n) }, [29, 2]);
    expect(part).toMatchObject({
      length: 2,
      names: ["gene 29", "gene 2"],
      positions: [29, 2],
      units: { scale: [1000, 1], shift: [0, 0] },
    });
  });

  it("says from where to where each column goes", () => {
    const path = [-20, 0, 40].map((change, n): Series => {
      const values = TABLE.units.shift.map((shift) => shift + change);
      return { name: `${n}`, values, role: "main", colour: "red" };
    });
    const texts = Array.from(
      drawn(TABLE, path).querySelectorAll(".value"),
      (text) => text.textContent,
    );
    expect(texts).toEqual(["20 → 80", "30000 → 30000", "−18 → 42"]);
  });
});

it("curves lie at the positions of their columns", () => {
  const seen = {
    ...TABLE,
    curve: true,
    positions: [0, 1, 10],
    units: { scale: [1], shift: [0], clip: false },
  };
  const path = drawn(seen, [{ ...observed, values: [0, 1, 0] }])
    .querySelector("path")!
    .getAttribute("d")!;
  const x = Array.from(path.matchAll(/[ML]([\d.]+),/g), (found) => +found[1]!);
  expect((x[1]! - x[0]!) / (x[2]! - x[0]!)).toBeCloseTo(0.1, 3);
});

describe("values of a curve", () => {
  it("are read by the arrow keys", async () => {
    const seen = {
      ...TABLE,
      curve: true,
      positions: [0, 1, 10],
      units: { scale: [1], shift: [0], clip: false },
    };
    const chart = drawn(seen, [{ ...observed, values: [0.5, 1.5, 2.5] }]).querySelector("svg")!;
    expect(chart.getAttribute("tabindex")).toBe("0");
    for (const text of ["<b>income</b>, observed 1.5", "height, observed 2.5"]) {
      chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
      await eventually(() => expect(chart.getAttribute("aria-valuetext")).toBe(text));
    }
  });

  it("stop at the ends", () => {
    expect(
      ["ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "x"].map((key) =>
        columnAfter(key, 2, 3),
      ),
    ).toEqual([1, 2, 0, 2, 2, null]);
  });
});
