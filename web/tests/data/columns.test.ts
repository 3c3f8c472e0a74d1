import { describe, expect, it } from "vitest";
import { currentPlace } from "../../src/panels/data/marks";
import { cloudOf } from "../../src/panels/data/cloud";
import {
  axisOptions,
  colourOptions,
  columnOf,
  defaultAxes,
  defaultColour,
  placesOf,
  textOf,
} from "../../src/panels/data/columns";
import { affineMap, solve } from "../../src/panels/data/projection";
import { outerEnds } from "../../src/panels/data/controls";
import { ticksOf } from "../../src/panels/data/axes";
import { smallModel } from "../fixture";
import { normals } from "../random";

const model = await smallModel();

describe("columns of the rows", () => {
  it("are the means, the classes, the components and the factors", () => {
    expect(columnOf(model, "z:0")!.values[7]).toBe(model.code(7)[0]);
    expect(columnOf(model, "z:2")!.values[7]).toBe(7 % 3);
    expect(columnOf(model, "pca:0")!.values[7]).toBe(7 % 5);
    expect(columnOf(model, "factor:1")!.values[7]).toBe(7 % 3);
    expect(columnOf(model, "error")!.values[7]).toBeCloseTo(7 / 50);
  });

  it.each(["z:9", "z:0:1", "factor:2", "map:0", "pca:2", "", "none", "constructor", "z:-1"])(
    "has none of %s",
    (key) => {
      expect(columnOf(model, key)).toBeNull();
    },
  );

  it("has every option that it offers", () => {
    for (const { key } of axisOptions(model)) expect(columnOf(model, key)).not.toBeNull();
    for (const { key } of colourOptions(model).slice(1))
      expect(columnOf(model, key)).not.toBeNull();
  });

  it("spreads classes around their place, and numbers not at all", () => {
    const places = placesOf(columnOf(model, "factor:1")!);
    places.forEach((place, row) => expect(Math.abs(place - (row % 3))).toBeLessThan(0.33));
    expect(new Set(places).size).toBe(50);
    expect(placesOf(columnOf(model, "z:0")!)).toBe(columnOf(model, "z:0")!.values);
  });

  it("spreads two columns independently", () => {
    const away = (key: string) =>
      placesOf(columnOf(model, key)!).map((place) => place - Math.round(place));
    const [a, b] = [away("factor:0"), away("factor:1")];
    const dot = (u: Float32Array, v: Float32Array) =>
      u.reduce((sum, value, n) => sum + value * v[n]!, 0);
    expect(Math.abs(dot(a, b)) / Math.sqrt(dot(a, a) * dot(b, b))).toBeLessThan(4 / Math.sqrt(50));
  });

  it("names values, also missing ones", () => {
    expect(textOf(columnOf(model, "factor:1")!, 2)).toBe("heart");
    expect(textOf(columnOf(model, "factor:1")!, NaN)).toBe("missing");
    expect(textOf(columnOf(model, "z:0")!, 0.123456)).toBe("0.1235");
  });
});

describe("the first view", () => {
  it("shows the most informative variables, continuous ones first", async () => {
    const other = await smallModel();
    const [a, c, b] = other.data.variables;
    Object.assign(a!, { information: 0.1 });
    Object.assign(b!, { information: 0.7 });
    Object.assign(c!, { information: 3 });
    expect(defaultAxes(other)).toEqual(["z:1", "z:0"]);
  });

  it("has two axes even for one variable", async () => {
    const other = await smallModel();
    other.data.variables.splice(1);
    expect(defaultAxes(other)).toEqual(["z:0", "pca:0"]);
  });

  it("is coloured by what the variable across tells about", () => {
    expect(defaultColour(model, "z:0")).toBe("factor:0");
    expect(defaultColour(model, "z:1")).toBe("none");
  });
});

describe("a range to select", () => {
  it("holds all values, with few digits", () => {
    for (const scale of [1e-5, 1, 1234.5]) {
      const values = normals(10, 200).map((value) => scale * value);
      const [low, high] = outerEnds(values);
      expect(values.every((value) => value >= +low && value <= +high)).toBe(true);
      for (const end of [low, high]) expect(+(+end).toPrecision(5)).toBe(+end);
    }
    expect(outerEnds(new Float32Array([NaN, 0]))).toEqual(["0", "0"]);
  });
});

describe("ticks", () => {
  it("are classes within what is seen, thinned to the room", () => {
    const column = columnOf(model, "factor:0")!;
    expect(ticksOf(column, [0.5, 3.2], 9).map(({ label }) => label)).toEqual(["1", "2", "3"]);
    expect(ticksOf(column, [-1, 9], 3)).toHaveLength(3);
    expect(ticksOf(column, [6, 9], 3)).toEqual([]);
  });
});

describe("the current code", () => {
  it("lies at its row until a slider moves, then where its code is", () => {
    const cloud = cloudOf(model, "z:0", "z:2");
    expect(currentPlace(model, cloud, null, 3)).toEqual([cloud.points.x[3], cloud.points.y[3]]);
    expect(currentPlace(model, cloud, [0.5, 9, 0, 0.2, 0.8], 3)).toEqual([0.5, 2]);
  });

  it("has no place on an axis that is known for rows only", () => {
    expect(currentPlace(model, cloudOf(model, "z:0", "factor:0"), [0, 0, 0, 0, 0], 3)).toBeNull();
  });

  it("has a place among principal components, which are affine functions of codes", () => {
    const [x, y] = currentPlace(model, cloudOf(model, "pca:0", "pca:1"), [1, 0.25, 1, 0, 0], 3)!;
    expect([x, y]).toEqual([expect.closeTo(3, 4), expect.closeTo(0.25, 4)]);
  });
});

describe("least squares", () => {
  it("solves linear equations", () => {
    const lines = [
      [0, 2, 4, 2],
      [1, 1, 1, 3],
      [2, -1, 3, 9],
    ].map((line) => Float64Array.from(line));
    const [a, b, c] = solve(lines.map((line) => line.slice())) as [number, number, number];
    for (const line of lines)
      expect(line[0]! * a + line[1]! * b + line[2]! * c).toBeCloseTo(line[3]!);
  });

  it("finds the affine function behind values, also if columns depend on each other", () => {
    const z = normals(5, 300);
    const codes = z.map((value, n) => (n % 3 === 2 ? 2 * z[n - 1]! : value));
    const values = Float32Array.from(
      { length: 100 },
      (_, n) => 3 * codes[3 * n]! - codes[3 * n + 1]! + 5,
    );
    expect(affineMap(codes, 3, values)([1, 2, 4])).toBeCloseTo(3 - 2 + 5, 3);
  });
});
