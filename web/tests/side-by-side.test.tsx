import { render } from "preact";
import { act } from "preact/test-utils";
import { beforeEach, describe, expect, it } from "vitest";
import { ownCode } from "../src/linked";
import type { Model } from "../src/model";
import { closeRun, makeFirst, openRun } from "../src/open-runs";
import { originOf } from "../src/origin";
import { RunPicker } from "../src/panels/picker";
import { groupsCsv } from "../src/panels/runs/group-table";
import { Matched } from "../src/panels/runs/matched";
import { RunTable } from "../src/panels/runs/table";
import { code, DEFAULTS, manifest, models, NO_RUNS, view } from "../src/state";
import { runData, smallModel } from "./fixture";

let [first, other]: Model[] = [];
let page: HTMLElement;

beforeEach(async () => {
  [first, other] = [await smallModel("first"), await smallModel("other", -1)];
  other!.data.rows.index = other!.data.rows.index.map((n) => n + 10);
  manifest.value = {
    ...NO_RUNS,
    open: ["first"],
    runs: [
      runData("first"),
      runData("other", { name: "<b>other</b>" }),
      ...Array.from({ length: 4998 }, (_, n) => runData(`x${n}`)),
    ],
  };
  models.value = new Map([
    ["first", first!],
    ["other", other!],
  ]);
  view.value = { ...DEFAULTS, open: ["first", "other"], row: 12 };
  page = document.createElement("div");
});

function show(content: preact.ComponentChild): void {
  act(() => render(content, page));
}

describe("runs side by side", () => {
  it("show the same observation, or know that they do not have it", () => {
    expect(ownCode(first!, { kind: "row", row: 12 }, other!)).toEqual(other!.code(2));
    expect(ownCode(first!, { kind: "row", row: 3 }, other!)).toBeNull();
  });

  it("keep the observation when another one gets the sliders", () => {
    makeFirst("other");
    expect(view.value.open).toEqual(["other", "first"]);
    expect([view.value.row, view.value.z]).toEqual([12, null]);
    expect(originOf(other!)).toEqual({ kind: "row", row: 2 });
    expect(code.value).toEqual(other!.code(2));
  });

  it("keep moved sliders: there and back is where they were", () => {
    const moved = [...first!.code(12)];
    moved[0]! += 0.5;
    view.value = { ...view.value, z: moved };
    makeFirst("other");
    expect(code.value).not.toEqual(other!.code(2));
    makeFirst("first");
    code.value.forEach((value, n) => expect(value).toBeCloseTo(moved[n]!, 5));
  });

  it("are at most four, and at least one", () => {
    for (const id of ["x1", "x2", "x3"]) openRun(id);
    expect(view.value.open).toEqual(["first", "other", "x1", "x3"]);
    for (const id of view.value.open) closeRun(id);
    expect(view.value.open).toEqual(["x3"]);
  });
});

it("groups of seeds are saved with numbers as they are, and nothing where a value is missing", () => {
  const settings = [{ lr: -0.123456789, fast: true }, { lr: null }];
  const runs = settings.map((each, n) => runData(`${n}`, { settings: { seed: 0, ...each } }));
  manifest.value = { ...manifest.value, runs };
  expect(groupsCsv()).toEqual({
    columns: ["seeds", "lr"],
    rows: [
      [1, -0.123456789],
      [1, null],
    ],
  });
});

describe("the page", () => {
  it("shows a window of five thousand runs, and their names as text", () => {
    show(<RunTable />);
    expect(page.querySelectorAll("tbody tr")).toHaveLength(100);
    expect(page.querySelector("b")).toBeNull();
    expect(page.textContent).toContain("<b>other</b>");
    expect(page.textContent).toContain("1 to 100 of 5000");
    const boxes = [...page.querySelectorAll<HTMLInputElement>("tbody input")];
    expect(boxes.filter((box) => box.checked)).toHaveLength(2);
  });

  it("sorts by a header, which says so", () => {
    show(<RunTable />);
    const button = [...page.querySelectorAll<HTMLButtonElement>("th button")].find(
      (each) => each.title === "name",
    )!;
    act(() => button.click());
    expect(button.closest("th")!.getAttribute("aria-sort")).toBe("ascending");
    act(() => button.click());
    expect(button.closest("th")!.getAttribute("aria-sort")).toBe("descending");
    expect(page.querySelector("tbody td:nth-child(2)")!.textContent).toBe("run x4997");
  });

  it("lists the matches of every latent variable that is used", () => {
    show(<Matched model={first!} />);
    const rows = [...page.querySelectorAll("tbody tr")].map((row) => row.textContent);
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatch(/^z0z0\s+−1\.00$/);
    expect(rows[1]).toMatch(/^cc\s+1\.00$/);
  });

  it("names the buttons of every open run", () => {
    show(<RunPicker />);
    const names = [...page.querySelectorAll("button")].map(
      (each) => each.getAttribute("aria-label") ?? each.textContent,
    );
    expect(names).toEqual([
      "Remove run first",
      "Make first: <b>other</b>",
      "Remove <b>other</b>",
      "Compare with another run …",
    ]);
  });
});
