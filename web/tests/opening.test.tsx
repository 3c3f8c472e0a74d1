import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { writeFragment } from "../src/address";
import { App } from "../src/app";
import { Model } from "../src/model";
import { Others } from "../src/panels/others";
import { Filter } from "../src/panels/runs/tab";
import { Header } from "../src/ui/header";
import {
  change,
  DEFAULTS,
  failures,
  manifest,
  models,
  NO_RUNS,
  openMissing,
  problem,
  report,
  succeeded,
  view,
} from "../src/state";
import { drawn, eventually, runData, smallModel } from "./fixture";

const IDS = ["a", "b", "c", "d", "e"];
let page: HTMLElement;

beforeEach(() => {
  vi.useRealTimers();
  page = document.createElement("div");
  manifest.value = {
    ...NO_RUNS,
    runs: IDS.map((id) => runData(id, { settings: { seed: id } })),
  };
  models.value = failures.value = new Map();
  problem.value = "";
  view.value = DEFAULTS;
});

afterEach(() => {
  act(() => render(null, page));
  vi.restoreAllMocks();
});

describe("models", () => {
  it("of closed runs are given back, but for the last ones", async () => {
    vi.spyOn(Model, "open").mockImplementation((id) => smallModel(id));
    const close = vi.spyOn(Model.prototype, "close");
    for (const id of IDS) {
      view.value = { ...DEFAULTS, open: [id] };
      await openMissing();
    }
    expect([...models.value.keys()].sort()).toEqual(["c", "d", "e"]);
    expect(close.mock.contexts.map((each) => (each as Model).id)).toEqual(["a", "b"]);
  });

  it("are read once, although their run is closed and reopened meanwhile", async () => {
    const open = vi.spyOn(Model, "open").mockImplementation(async (id) => {
      await drawn();
      return smallModel(id);
    });
    for (const ids of [["a"], ["b"], ["a"]]) change({ open: ids });
    await eventually(() => expect([...models.value.keys()]).toEqual(["a"]));
    expect(open.mock.calls.filter(([id]) => id === "a")).toHaveLength(1);
  });
});

describe("a page without a model", () => {
  it("says why, and has the table of runs", () => {
    const training = runData("a", {
      state: "running",
      explorable: false,
      reason: "is training and has no checkpoint yet",
    });
    manifest.value = { ...manifest.value, runs: [training] };
    act(() => render(<App />, page));
    expect(page.querySelector(".waiting")!.textContent).toBe(
      "run a is training and has no checkpoint yet.",
    );
    expect(page.querySelector(".runs table")).not.toBeNull();
    expect(page.textContent).not.toContain("Opening");
  });

  it("says why a run could not be opened", async () => {
    vi.spyOn(Model, "open").mockRejectedValue(new Error("its checksum does not match"));
    view.value = { ...DEFAULTS, open: ["a"] };
    act(() => render(<App />, page));
    expect(page.querySelector(".waiting")!.textContent).toBe("Opening …");
    await openMissing();
    await eventually(() =>
      expect(page.querySelector(".waiting")!.textContent).toBe(
        "run a cannot be opened: its checksum does not match",
      ),
    );
  });
});

describe("a run beside the first one that could not be opened", () => {
  it("says why, and is tried again", async () => {
    const open = vi.spyOn(Model, "open").mockRejectedValueOnce(new Error("it is damaged"));
    models.value = new Map([["a", await smallModel("a")]]);
    view.value = { ...DEFAULTS, open: ["a", "b"] };
    await openMissing();
    act(() => render(<Others model={models.value.get("a")!} />, page));
    expect(page.textContent).toContain("run b cannot be opened: it is damaged");
    open.mockImplementation((id) => smallModel(id));
    page.querySelector("button")!.click();
    await eventually(() => expect(page.querySelector("[data-run=b]")).not.toBeNull());
  });
});

describe("a problem", () => {
  it("is over when the same attempt succeeds, and can be dismissed", async () => {
    report("open a", "Cannot open a");
    succeeded("open b");
    expect(problem.value).toBe("Cannot open a");
    succeeded("open a");
    expect(problem.value).toBe("");
    report("save", "Cannot save");
    act(() => render(<App />, page));
    page.querySelector<HTMLElement>(".problem button")!.click();
    await eventually(() => expect(page.querySelector(".problem")).toBeNull());
  });
});

describe("the filter's field", () => {
  it("keeps what is typed while the page is drawn again", async () => {
    act(() => render(<Filter />, page));
    const field = page.querySelector("input")!;
    field.value = "seed=a";
    act(() => void field.dispatchEvent(new Event("input", { bubbles: true })));
    act(() => render(<Filter />, page));
    expect(field.value).toBe("seed=a");
    await eventually(() => expect(view.value.filter).toBe("seed=a"));
  });
});

describe("a page in a notebook", () => {
  it("has no address: nothing is written to it, and there is no link", () => {
    vi.stubGlobal("location", { href: "about:srcdoc" });
    const write = vi.spyOn(history, "replaceState").mockImplementation(() => {
      throw new Error("SecurityError");
    });
    writeFragment("tab=1");
    expect(write).not.toHaveBeenCalled();
    const none = () => undefined;
    act(() => render(<Header onTour={none} onKeys={none} />, page));
    expect(page.textContent).not.toContain("Copy link");
    vi.unstubAllGlobals();
    act(() => render(<Header onTour={none} onKeys={none} key="again" />, page));
    expect(page.textContent).toContain("Copy link");
    expect(() => writeFragment("tab=1")).not.toThrow();
  });
});
