import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Manifest, RunData } from "../src/bundle";
import { Model } from "../src/model";
import { codeOf, originOf, showUpload, take, uploads } from "../src/origin";
import { variablesOf } from "../src/panels/grid";
import { endsOf } from "../src/panels/interpolate";
import { axesOf } from "../src/selection";
import { fetchManifest, merged } from "../src/source";
import {
  change,
  code,
  DEFAULTS,
  failures,
  manifest,
  models,
  NO_RUNS,
  problem,
  undo,
  view,
} from "../src/state";
import { Watcher } from "../src/watch";
import { drawn, eventually, runData, smallModel } from "./fixture";

function manifestAt(step: number, state: RunData["state"] = "running"): Manifest {
  const run = runData("aaaaaaaaaaaa", { state, step, steps: 1000 });
  return {
    ...NO_RUNS,
    served: true,
    watch: true,
    runs: [run],
    open: [run.id],
    tag: String(step),
  };
}

/** A model of the given step whose rows come in reverse order. */
async function modelAt(step: number): Promise<Model> {
  const model = await smallModel();
  model.data.step = step;
  model.data.rows.index.reverse();
  model.encode = async () => [[step, 0, 1, 0, 0]];
  return model;
}

let read = 0;
beforeEach(async () => {
  read = 0;
  uploads.value = [];
  const model = await smallModel();
  manifest.value = manifestAt(100);
  models.value = new Map([[model.id, model]]);
  view.value = { ...DEFAULTS, open: [model.id], row: 3, z: [1, 2, 0, 1, 0] };
  problem.value = "";
});

function watcher(step: () => number, weights: () => number): Watcher {
  return new Watcher({
    manifest: () => Promise.resolve(manifestAt(step())),
    model: () => {
      read++;
      return modelAt(weights());
    },
  });
}

/** Wait until the page has the weights of a step. */
const weightsAt = (step: number) =>
  eventually(() => expect(models.value.get("aaaaaaaaaaaa")!.data.step).toBe(step));

describe("the question for the manifest", () => {
  it("names the manifest that the page has, and is not answered with the same one", async () => {
    let step = 7;
    const server = (_: string, { headers }: { headers: Record<string, string> }) => {
      const known = headers["If-None-Match"] === `"${step}"`;
      return Promise.resolve(
        known
          ? new Response(null, { status: 304 })
          : new Response(JSON.stringify(manifestAt(step))),
      );
    };
    vi.stubGlobal("fetch", server);
    const first = (await fetchManifest(manifestAt(0)))!;
    expect(first.runs[0]!.step).toBe(7);
    expect(await fetchManifest(first)).toBeNull();
    step = 8;
    expect((await fetchManifest(first))!.runs[0]!.step).toBe(8);
    vi.unstubAllGlobals();
  });

  it("is answered with the runs that have changed, and the order of all", () => {
    const [run] = manifestAt(1).runs;
    const named = (ids: string, step: number) => [...ids].map((id) => ({ ...run!, id, step }));
    const before = { ...manifestAt(1), runs: named("abc", 1) };
    const next = { ...manifestAt(2), runs: named("bd", 2), ids: ["d", "c", "b"] };
    const all = merged(before, next);
    expect(all.runs.map(({ id, step }) => [id, step])).toEqual([
      ["d", 2],
      ["c", 1],
      ["b", 2],
    ]);
    expect(all.runs[1]).toBe(before.runs[2]);
    expect(merged(before, manifestAt(3)).runs).toHaveLength(1);
  });
});

describe("watching", () => {
  it("leaves everything as it is while nothing changes", async () => {
    const before = manifest.value;
    const watched = new Watcher({
      manifest: () => Promise.resolve(null),
      model: () => modelAt(200),
    });
    await watched.look();
    await drawn();
    expect(manifest.value).toBe(before);
    expect(models.value.get("aaaaaaaaaaaa")!.data.step).toBe(100);
  });

  it("reads newer weights once, and keeps the code and the observation", async () => {
    const watched = watcher(
      () => 300,
      () => 300,
    );
    await watched.look();
    await weightsAt(300);
    await watched.look();
    await drawn();
    expect(manifest.value.runs[0]!.step).toBe(300);
    expect(read).toBe(1);
    expect(code.value).toEqual([1, 2, 0, 1, 0]);
    expect(view.value.row).toBe(3);
    expect(originOf(models.value.get("aaaaaaaaaaaa")!)).toEqual({ kind: "row", row: 49 - 3 });
  });

  it("pins the observation of a view at the model's start, also for undo", async () => {
    view.value = { ...view.value, row: null, z: null };
    change({ tab: "data" });
    await watcher(
      () => 300,
      () => 200,
    ).look();
    await weightsAt(200);
    expect(view.value.row).toBe(0);
    expect(originOf(models.value.get("aaaaaaaaaaaa")!)).toEqual({ kind: "row", row: 49 });
    undo();
    expect(view.value).toMatchObject({ tab: "traversals", row: 0 });
  });

  it("keeps what a tab shows by default, though newer weights would choose something else", async () => {
    const [before, newer] = [models.value.get("aaaaaaaaaaaa")!, await modelAt(200)];
    newer.data.variables.reverse();
    newer.data.variables.forEach((variable, n) => (variable.information = -n));
    view.value = { ...view.value, z: null };
    const tabs = ["between", "grid", "data"] as const;
    for (const tab of tabs) change({ tab });
    change({ tab: "runs" });
    const shown = (model: Model) => ({
      between: { ends: endsOf(model, null) },
      grid: { grid: variablesOf(model, null)!.map(({ number }) => number) },
      data: axesOf(model, DEFAULTS),
    });
    const seen = shown(before);
    for (const tab of tabs) expect(shown(newer)[tab]).not.toEqual(seen[tab]);
    const source = {
      manifest: () => Promise.resolve(manifestAt(300)),
      model: () => Promise.resolve(newer),
    };
    await new Watcher(source).look();
    await weightsAt(200);
    expect(view.value).toMatchObject({ tab: "runs", ends: null, grid: null, x: "" });
    for (const tab of tabs.toReversed()) {
      undo();
      expect(view.value).toMatchObject({ tab, ...seen[tab] });
    }
  });

  it("encodes the shown file again, unless the sliders were moved", async () => {
    const before = models.value.get("aaaaaaaaaaaa")!;
    before.encode = async () => [[1, 1, 1, 0, 0]];
    const file = () => new File([new Array(16).fill(0.5).join(",")], "a.csv");
    await take(before, [file()]);
    expect(view.value.z).toEqual([1, 1, 1, 0, 0]);
    await watcher(
      () => 300,
      () => 200,
    ).look();
    await weightsAt(200);
    const newer = models.value.get("aaaaaaaaaaaa")!;
    expect(newer).not.toBe(before);
    expect(originOf(newer).kind).toBe("upload");
    expect(view.value.z).toEqual([200, 0, 1, 0, 0]);
    change({ z: [7, 0, 1, 0, 0] });
    await watcher(
      () => 500,
      () => 400,
    ).look();
    await weightsAt(400);
    const newest = models.value.get("aaaaaaaaaaaa")!;
    expect(codeOf(newest, originOf(newest))![0]).toBe(400);
    expect(view.value.z![0]).toBe(7);
  });

  it("reads the last weights, which come after the last row of the log", async () => {
    let [state, weights]: [RunData["state"], number] = ["running", 200];
    const watched = new Watcher({
      manifest: () => Promise.resolve(manifestAt(300, state)),
      model: () => modelAt(weights),
    });
    await watched.look();
    await weightsAt(200);
    [state, weights] = ["finished", 300];
    await watched.look();
    await weightsAt(300);
  });

  it("asks again for weights that were not written when it read the log", async () => {
    let weights = 100;
    const watched = watcher(
      () => 200,
      () => weights,
    );
    await watched.look();
    await eventually(() => expect(read).toBe(1));
    await drawn();
    expect(models.value.get("aaaaaaaaaaaa")!.data.step).toBe(100);
    weights = 200;
    await watched.look();
    await weightsAt(200);
    await watched.look();
    await drawn();
    expect(read).toBe(2);
  });

  it("asks again for weights that it did not get", async () => {
    const answers = [() => Promise.reject(new Error("refused")), () => modelAt(300)];
    const watched = new Watcher({
      manifest: () => Promise.resolve(manifestAt(300)),
      model: () => answers[read++]!(),
    });
    await watched.look();
    await eventually(() => expect(problem.value).toContain("refused"));
    await watched.look();
    await weightsAt(300);
    await eventually(() => expect(problem.value).toBe(""));
  });

  it("encodes the file that is shown when newer weights are, not the one before", async () => {
    const before = models.value.get("aaaaaaaaaaaa")!;
    const mean = (x: Float32Array) => x.reduce((sum, value) => sum + value, 0) / x.length;
    before.encode = async (x) => [[mean(x), 0, 1, 0, 0]];
    const file = (value: number) => new File([new Array(16).fill(value).join(",")], `${value}.csv`);
    await take(before, [file(0.25), file(0.5)]);
    const newer = await modelAt(200);
    newer.encode = async (x) => {
      if (mean(x) === 0.5) await showUpload(before, uploads.value.at(-2)!);
      return [[10 + mean(x), 0, 1, 0, 0]];
    };
    await new Watcher({
      manifest: () => Promise.resolve(manifestAt(300)),
      model: () => Promise.resolve(newer),
    }).look();
    await eventually(() => expect(view.value.z![0]).toBe(10.25));
    expect(originOf(newer)).toMatchObject({ kind: "upload", upload: { name: "0.25.csv" } });
  });

  it("says which file newer weights cannot encode", async () => {
    const before = models.value.get("aaaaaaaaaaaa")!;
    before.encode = async () => [[1, 1, 1, 0, 0]];
    await take(before, [new File([new Array(16).fill(0.5).join(",")], "\u05D2.csv")]);
    const newer = await modelAt(200);
    newer.encode = () => Promise.reject(new Error("no memory"));
    await new Watcher({
      manifest: () => Promise.resolve(manifestAt(300)),
      model: () => Promise.resolve(newer),
    }).look();
    await eventually(() =>
      expect(problem.value).toContain("cannot encode \u2068\u05D2.csv\u2069: no memory"),
    );
  });

  it("opens a run that failed when it has changed", async () => {
    vi.spyOn(Model, "open").mockImplementation((id) => smallModel(id));
    models.value = new Map();
    failures.value = new Map([["aaaaaaaaaaaa", "no weights"]]);
    await watcher(
      () => 100,
      () => 100,
    ).look();
    await eventually(() => expect([models.value.size, failures.value.size]).toEqual([1, 0]));
    vi.restoreAllMocks();
  });

  it("reads one model at a time", async () => {
    const watched = watcher(
      () => 300,
      () => 200,
    );
    await Promise.all([watched.refresh(), watched.refresh()]);
    manifest.value = manifestAt(300);
    await Promise.all([watched.refresh(), watched.refresh()]);
    expect(read).toBe(1);
  });

  it("says that the server does not answer, until it does", async () => {
    let down = true;
    const watched = new Watcher({
      manifest: () =>
        down ? Promise.reject(new Error("refused")) : Promise.resolve(manifestAt(100)),
      model: () => modelAt(100),
    });
    await watched.look();
    expect(problem.value).toContain("Cannot follow the runs: refused.");
    down = false;
    await watched.look();
    expect(problem.value).toBe("");
  });
});
