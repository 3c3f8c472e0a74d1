import { describe, expect, it } from "vitest";
import { bothLines, whyNoContours } from "../../src/panels/data/density";
import { cloudOf } from "../../src/panels/data/cloud";
import { densityGrid, densityLines, levelOf, MASSES } from "../../src/panels/data/contours";
import type { Place } from "../../src/scatter/camera";
import { inside } from "../../src/scatter/lasso";
import { smallModel } from "../fixture";
import { normals } from "../random";

const x = normals(7, 8000);
const y = normals(8, 8000).map((value) => 3 * value + 10);

describe("contours of a density", () => {
  it("hold their share of the points", () => {
    for (const { mass, rings } of densityLines(x, y)) {
      const count = [...x.keys()].filter(
        (n) => rings.filter((ring) => inside([x[n]!, y[n]!], ring)).length % 2 === 1,
      ).length;
      expect(Math.abs(count / 8000 - mass)).toBeLessThan(0.04);
    }
  });

  it("are the ellipses of a normal distribution", () => {
    const [half] = densityLines(x, y);
    const radii = half!.rings.flat().map(([u, v]: Place) => Math.hypot(u, (v - 10) / 3));
    const mean = radii.reduce((a, b) => a + b) / radii.length;
    expect(mean).toBeCloseTo(Math.sqrt(-2 * Math.log(0.5)), 1);
  });

  it("come from a grid that sums to 1, with lower levels for more mass", () => {
    const grid = densityGrid(x, y, { x: [-8, 8], y: [-14, 34] });
    expect(grid.reduce((a, b) => a + b)).toBeCloseTo(1, 5);
    const [inner, outer] = MASSES.map((mass) => levelOf(grid, mass));
    expect(inner).toBeGreaterThan(outer!);
    const above = grid.filter((share) => share >= outer!).reduce((a, b) => a + b);
    expect(above).toBeGreaterThanOrEqual(0.9);
  });
});

it("contours of q(z) are of samples, which spread more widely than the means of q(z|x)", async () => {
  const model = await smallModel();
  const cloud = cloudOf(model, "z:0", "z:1");
  const samples = model.bundle.floats(model.data.rows.sample);
  const column = (n: number) => samples.filter((_, at) => at % model.data.size === n);
  const [posterior] = bothLines(model, cloud);
  expect(posterior).toEqual(densityLines(column(0), column(1)));
  expect(posterior).not.toEqual(densityLines(cloud.x.values, cloud.y.values));
});

describe("contours need two continuous latent variables", async () => {
  const model = await smallModel();
  it.each([
    ["z:0", "z:1", ""],
    ["z:0", "pca:0", "Principal component 1"],
    ["z:2", "z:0", "c"],
    ["z:0", "z:0", "different"],
  ])("%s and %s", (across, up, reason) => {
    const why = whyNoContours(cloudOf(model, across, up));
    if (reason) expect(why).toContain(reason);
    else expect(why).toBe("");
  });
});
