import { describe, expect, it } from "vitest";
import type { Thumbnails } from "../src/bundle";
import { Model } from "../src/model";
import { place, range, thumbnail } from "../src/thumbnails";
import { smallModel, writeBundle } from "./fixture";

const SHEETS: Thumbnails = {
  kind: "image",
  count: 20,
  columns: 4,
  rows: 2,
  tile: [5, 7],
  sheets: [],
  type: "image/png",
};

describe("tiles of sheets", () => {
  it("lie row by row, and no two rows share a place", () => {
    expect(place(SHEETS, 0)).toEqual({ sheet: 0, x: 0, y: 0 });
    expect(place(SHEETS, 5)).toEqual({ sheet: 0, x: 5, y: 7 });
    expect(place(SHEETS, 8)).toEqual({ sheet: 1, x: 0, y: 0 });
    const places = Array.from({ length: 20 }, (_, row) => JSON.stringify(place(SHEETS, row)));
    expect(new Set(places).size).toBe(20);
  });
});

/** A model whose rows are shown as vectors of 16 numbers. */
async function modelOfVectors(values: number[]): Promise<Model> {
  const plain = await smallModel();
  const count = values.length / 16;
  return new Model(
    await writeBundle((add) => ({
      ...plain.data,
      information: add([], [0]),
      prior: add([], [0]),
      rows: {
        ...plain.data.rows,
        mean: add([], [0]),
        factors: add([], [0]),
        shown: { kind: "vector", count, values: add(values, [count, 16]) },
      },
    })),
  );
}

describe("values of rows", () => {
  it("are cut from one array, and rows beyond it have none", async () => {
    const values = Array.from({ length: 32 }, (_, n) => n - 3);
    const model = await modelOfVectors(values);
    const second = await thumbnail(model, 1);
    expect(second?.kind === "vector" && Array.from(second.values)).toEqual(values.slice(16));
    expect(await thumbnail(model, 2)).toBeNull();
    expect(range(model)).toEqual([-3, 28]);
  });

  it("keeps the scale of curves although a few rows are outliers", async () => {
    const values = Array.from({ length: 100 * 16 }, (_, n) => (n < 16 ? 1000 : n % 16));
    expect(range(await modelOfVectors(values))).toEqual([0, 15]);
  });
});
