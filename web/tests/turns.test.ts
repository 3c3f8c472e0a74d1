import { describe, expect, it } from "vitest";
import { joined, split } from "../src/runtime";
import { Turns } from "../src/turns";

describe("turns", () => {
  it("let what is urgent overtake a grid, and keep the order of equals", async () => {
    const done: string[] = [];
    const turns = new Turns();
    const job = (name: string) => () => {
      done.push(name);
      return Promise.resolve();
    };
    const grid = Array.from({ length: 4 }, (_, n) => turns.take(job(`grid ${n}`), 2));
    await grid[0];
    const other = turns.take(job("beside"), 1);
    await Promise.all([other, turns.take(job("slider"), 0), ...grid]);
    expect(done).toEqual(["grid 0", "slider", "beside", "grid 1", "grid 2", "grid 3"]);
  });

  it("let events of the page in between", async () => {
    const done: string[] = [];
    const turns = new Turns();
    setTimeout(() => done.push("event"), 0);
    const jobs = Array.from({ length: 50 }, (_, n) =>
      turns.take(() => Promise.resolve(done.push(`${n}`)), 2),
    );
    await Promise.all(jobs);
    expect(done.indexOf("event")).toBeLessThan(50);
    expect(done).toContain("event");
  });

  it("go on after a job that fails", async () => {
    const turns = new Turns();
    const failed = turns.take(() => Promise.reject(new Error("no")), 2);
    const next = turns.take(() => Promise.resolve(3), 2);
    await expect(failed).rejects.toThrow("no");
    expect(await next).toBe(3);
  });
});

describe("parts of a batch", () => {
  it.each([0, 1, 32, 33, 361])("of %i rows are joined to the batch", (rows) => {
    const values = Float32Array.from({ length: 2 * rows }, (_, n) => n);
    const parts = split(values, 64);
    expect(parts.every((part) => part.length > 0 && part.length <= 64)).toBe(true);
    expect(joined(parts)).toEqual(values);
  });
});
