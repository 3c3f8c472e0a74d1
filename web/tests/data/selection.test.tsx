import { render } from "preact";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Data } from "../../src/panels/data/data";
import { columnOf } from "../../src/panels/data/columns";
import { rowsTable, scatterTable } from "../../src/panels/data/table";
import {
  chooseAxis,
  clearSelection,
  colourKey,
  selection,
  selectLasso,
  selectRange,
  xAxis,
  yAxis,
} from "../../src/selection";
import { change, decode, DEFAULTS, encode, models, undo, view } from "../../src/state";
import { csvText } from "../../src/ui/export";
import { drawn, smallModel } from "../fixture";

const model = await smallModel();

beforeEach(() => {
  models.value = new Map([[model.id, model]]);
  view.value = { ...DEFAULTS, open: [model.id], tab: "data" };
});

describe("a selection", () => {
  it("holds the rows in the lasso, and a link restores it", () => {
    selectLasso([
      [0.5, -9],
      [1.5, -9],
      [1.5, 9],
      [0.5, 9],
    ]);
    const expected = [...Array(50).keys()].filter((row) => row % 5 === 3);
    expect(selection.value).toEqual(expected);
    const link = encode(view.value);
    clearSelection();
    expect(selection.value).toBeNull();
    view.value = decode(link);
    expect(selection.value).toEqual(expected);
  });

  it("stays when other axes are shown", () => {
    selectLasso([
      [0.5, -9],
      [1.5, -9],
      [1.5, 9],
      [0.5, 9],
    ]);
    const before = selection.value;
    change({ x: "pca:0", y: "factor:1" });
    expect(selection.value).toEqual(before);
  });

  it("by value replaces the lasso, and is undone", () => {
    selectLasso([
      [0.5, -9],
      [1.5, -9],
      [1.5, 9],
    ]);
    selectRange("factor:1", 2, 2);
    expect(selection.value!.every((row) => row % 3 === 2)).toBe(true);
    expect(view.value.lasso).toBeNull();
    undo();
    expect(view.value.range).toBeNull();
    expect(view.value.lasso).not.toBeNull();
  });

  it("by a range holds both ends", () => {
    selectRange("z:0", -2, -1);
    expect(selection.value!.map((row) => columnOf(model, "z:0")!.values[row])).toEqual(
      expect.arrayContaining([-2, -1]),
    );
    expect(selection.value).toHaveLength(20);
  });

  it("of something that the model does not have is none", () => {
    view.value = { ...view.value, range: ["factor:9", 0, 1] };
    expect(selection.value).toBeNull();
  });
});

describe("axes and colours", () => {
  it("that the model does not have fall back to the defaults", () => {
    view.value = { ...view.value, x: "z:99", y: "<b>", colour: "factor:7" };
    expect([xAxis.value, yAxis.value, colourKey.value]).toEqual(["z:0", "z:1", "factor:0"]);
  });

  it("are swapped when one is chosen for the other", () => {
    change({ x: "z:0", y: "pca:1" });
    chooseAxis(model, 0, "pca:1");
    expect([xAxis.value, yAxis.value]).toEqual(["pca:1", "z:0"]);
    chooseAxis(model, 1, "factor:0");
    expect([xAxis.value, yAxis.value]).toEqual(["pca:1", "factor:0"]);
  });

  it("keep the colour when a factor is on the x axis, and follow a variable there", () => {
    chooseAxis(model, 0, "z:2");
    expect(colourKey.value).toBe("factor:1");
    chooseAxis(model, 0, "factor:0");
    expect(colourKey.value).toBe("factor:1");
    view.value = { ...view.value, x: "", y: "", colour: "none" };
    chooseAxis(model, 0, "factor:0");
    expect(colourKey.value).toBe("none");
  });

  it("may be no colour", () => {
    change({ colour: "none" });
    expect(colourKey.value).toBe("none");
  });
});

describe("the link", () => {
  it.each([
    ["range", '["z:0",1]'],
    ["range", "[1,2,3]"],
    ["range", '"z:0"'],
    ["lassoAxes", '["z:0"]'],
    ["lasso", "[[1]]"],
  ])("leaves out %s=%s", (key, value) =>
    expect(decode(`${key}=${encodeURIComponent(value)}`)).toEqual(DEFAULTS),
  );
});

describe("the table of the selected rows", () => {
  it("has index, name, code and factors", () => {
    const { columns, rows } = rowsTable(model, [4, 7]);
    expect(columns).toEqual(["row", "name", "z0", "z1", "c[0]", "c[1]", "c[2]", "size", "shape"]);
    expect(rows[1]).toEqual([7, "", ...model.code(7), "2", "ellipse"]);
    expect(csvText({ columns, rows }).split("\r\n")).toHaveLength(4);
  });

  it("has numbers as they are, and nothing where a value is missing", async () => {
    const measured = await smallModel();
    Object.assign(measured.data.factors[0]!, { continuous: true, values: [] });
    measured.factors.set([-0.123456789, NaN], 0);
    const stored = Math.fround(-0.123456789);
    expect(rowsTable(measured, [0])!.rows[0]!.slice(-2)).toEqual([stored, null]);
    const [x, y] = ["factor:0", "factor:1"].map((key) => columnOf(measured, key)!);
    const cloud = { x: x!, y: y!, rows: [0] } as never;
    expect(scatterTable(measured, cloud, y!).rows[0]).toEqual([0, "", stored, null, null]);
  });
});

describe("the tab", () => {
  const page = document.createElement("div");
  afterEach(() => render(null, page));

  it("selects by value without a mouse, and shows how the selection differs", async () => {
    document.body.append(page);
    render(<Data model={model} />, page);
    const group = page.querySelector(".by-value")!;
    const of = group.querySelector("select")!;
    of.value = "factor:1";
    of.dispatchEvent(new Event("change", { bubbles: true }));
    await drawn();
    group.querySelector("button")!.click();
    await drawn();
    expect(selection.value).toHaveLength(17);
    expect(page.querySelector("[data-testid=selected-count]")!.textContent).toContain(
      "17 of 50 rows",
    );
    expect(page.querySelectorAll(".comparison")).toHaveLength(4);
    const link = [...page.querySelectorAll<HTMLButtonElement>(".tools button")].find(
      (each) => each.textContent === "17 selected",
    )!;
    link.click();
    expect(document.activeElement).toBe(page.querySelector("[data-testid=selected-count]"));
  });

  it("isolates a class by its legend, and shows all again", async () => {
    view.value = { ...view.value, colour: "factor:1" };
    render(<Data model={model} />, page);
    const entry = () => page.querySelectorAll<HTMLButtonElement>(".colour-key .key")[1]!;
    expect(entry().textContent).toContain("ellipse 17");
    entry().click();
    await drawn();
    expect(selection.value!.every((row) => row % 3 === 1)).toBe(true);
    expect(entry().getAttribute("aria-pressed")).toBe("true");
    entry().click();
    expect(selection.value).toBeNull();
  });

  it("is walked by keys", async () => {
    render(<Data model={model} />, page);
    const plot = page.querySelector<HTMLElement>("[data-testid=scatter]")!;
    const press = (key: string) =>
      plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    selectRange("factor:1", 2, 2);
    press("Escape");
    expect(selection.value).toBeNull();
    press("ArrowRight");
    await drawn();
    const said = page.querySelector("[aria-live]")!.textContent!;
    press("Enter");
    expect(said).toContain(`row ${view.value.row}`);
    expect(view.value.z).toBeNull();
  });

  it("shows names as text", async () => {
    const other = await smallModel("bbbbbbbbbbbb");
    other.data.factors[1]!.values[0] = "<img src=x onerror=alert(1)>";
    models.value = new Map([[other.id, other]]);
    view.value = { ...view.value, open: [other.id], colour: "factor:1" };
    render(<Data model={other} />, page);
    expect(page.querySelector("img")).toBeNull();
    expect(page.textContent).toContain("<img src=x");
  });
});
