import { expect, it } from "vitest";
import type { VectorObservation } from "../src/bundle";
import { traverse } from "../src/model";
import { csvOf as gridCsv } from "../src/panels/grid";
import { csvOf as pathCsv } from "../src/panels/interpolate";
import { csvOf as traversalCsv } from "../src/panels/traversals";
import { csvText } from "../src/ui/export";
import { smallModel } from "./fixture";

const model = await smallModel();
const seen: VectorObservation = {
  kind: "vector",
  length: 2,
  names: ["weight", "height"],
  positions: null,
  curve: false,
  counts: false,
  units: { scale: [10, 2], shift: [70, 1], clip: false },
};
model.data.observation = seen;
const [z0, c] = [model.variable(0), model.variable(2)];

it("traversals are saved in the user's units, with names and plain numbers", () => {
  const start = model.code(0);
  const codes = traverse(z0, start, 5);
  const decoded = { codes: [start, ...codes], values: new Float32Array(12).fill(-0.5) };
  const table = traversalCsv(model, [{ variable: z0, codes }], decoded);
  expect(table.columns).toEqual(["variable", "value", "weight", "height"]);
  expect(table.rows.map((row) => row[1])).toEqual([-2, -1, 0, 1, 2]);
  expect(table.rows[0]).toEqual(["z0", -2, 65, 0]);
  expect(csvText(table)).toContain("z0,-2,65,0\r\n");
});

it("grids and paths are saved with their codes and decoded values", () => {
  const codes = [
    [1, 0, 0, 1, 0],
    [2, 0, 0, 0, 1],
  ];
  const parts = codes.map(() => new Float32Array([1, 1]));
  const names = ["z0", "z1", "c[0]", "c[1]", "c[2]", "weight", "height"];
  const grid = gridCsv(model, [z0, c], codes, parts);
  expect(grid.columns).toEqual(["z0 (score)", "c (class)", ...names]);
  expect(grid.rows[1]).toEqual([2, 2, ...codes[1]!, 80, 3]);
  const path = pathCsv(model, codes, parts);
  expect(path.columns).toEqual(["share", ...names]);
  expect(path.rows[0]).toEqual([0, ...codes[0]!, 80, 3]);
});
