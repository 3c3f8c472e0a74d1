import { render } from "preact";
import { beforeEach, describe, expect, it } from "vitest";
import {
  codeOf,
  codesBeyond,
  forget,
  isUnmoved,
  originOf,
  refused,
  reset,
  showRow,
  showUpload,
  take,
  uploads,
} from "../src/origin";
import { Stage } from "../src/panels/stage";
import { eventually, smallModel } from "./fixture";
import { change, decode, DEFAULTS, encode, models, undo, view } from "../src/state";

const model = await smallModel();
/** An encoder whose code starts with the mean of the image. */
model.encode = async (x) => [[x.reduce((a, b) => a + b, 0) / x.length, 0, 1, 0, 0]];

const csv = (name: string, ...values: number[]) =>
  new File([Array.from({ length: 16 }, (_, n) => values[n % values.length]).join(",")], name);

beforeEach(() => {
  view.value = { ...DEFAULTS, open: [model.id] };
  models.value = new Map([[model.id, model]]);
  uploads.value = [];
});

describe("a file", () => {
  it("moves the sliders to its code, and undo goes back to the data", async () => {
    showRow(model, 7);
    await take(model, [csv("a.csv", 0, 0.5)]);
    expect(view.value.z).toEqual([0.25, 0, 1, 0, 0]);
    expect(originOf(model)).toMatchObject({ kind: "upload", upload: { name: "a.csv" } });
    expect(isUnmoved(model)).toBe(true);
    undo();
    expect(originOf(model)).toEqual({ kind: "row", row: 7 });
  });

  it("stays when another is read, and is shown again with the same code", async () => {
    await take(model, [csv("a.csv", 0.5), csv("b.csv", 1)]);
    expect(uploads.value.map(({ name }) => name)).toEqual(["a.csv", "b.csv"]);
    expect(codeOf(model, originOf(model))![0]).toBe(1);
    await showUpload(model, uploads.value[0]!);
    expect(view.value.z![0]).toBe(0.5);
  });

  it("that cannot be read is named, and changes nothing", async () => {
    const before = view.value;
    await take(model, [csv("wrong.csv", 3)]);
    expect(refused.value).toEqual([
      "Cannot read wrong.csv: its values go from 3 to 3. The model needs values from 0 to 1, or bytes of the type uint8.",
    ]);
    expect(view.value).toBe(before);
    await take(model, [csv("good.csv", 1)]);
    expect(refused.value).toEqual([]);
  });

  it("that is not of numbers is refused until something else is shown", async () => {
    const text = new File(["dear diary\ntoday I trained"], "bad.txt");
    const reasons = ["Cannot read bad.txt: it is neither an image nor a table of numbers."];
    await take(model, [text]);
    expect(refused.value).toEqual(reasons);
    change({ z: model.code(1) });
    expect(refused.value).toEqual(reasons);
    change({ tab: "data" });
    expect(refused.value).toEqual([]);
    await take(model, [text, csv("good.csv", 1)]);
    expect(refused.value).toEqual(reasons);
    showRow(model, 7);
    expect(refused.value).toEqual([]);
  });

  it("that is removed leaves the data", async () => {
    await take(model, [csv("a.csv", 0.5)]);
    forget(uploads.value[0]!);
    expect(originOf(model)).toEqual({ kind: "row", row: model.data.start });
    expect(view.value.z).toBeNull();
  });
});

it("a link to a file has its code and no observation", async () => {
  await take(model, [csv("a.csv", 0.5)]);
  const link = encode(view.value);
  uploads.value = []; // as in another page
  view.value = decode(link);
  expect(view.value.z).toEqual([0.5, 0, 1, 0, 0]);
  expect(originOf(model)).toEqual({ kind: "absent" });
  expect([codeOf(model, originOf(model)), isUnmoved(model)]).toEqual([null, false]);
  render(<Stage model={model} />, document.body);
  expect(document.querySelector(".original")).toBeNull();
  expect(document.querySelector(".about-origin")!.textContent).toBe(
    "The code of a file that is not in this page.",
  );
  expect(document.querySelectorAll(".spread .observed, .classes .observed")).toHaveLength(0);
  expect(
    Array.from(document.querySelectorAll<HTMLButtonElement>(".reset"), ({ disabled }) => disabled),
  ).not.toContain(false);
  render(null, document.body);
  const before = view.value;
  reset(model);
  expect(view.value).toBe(before);
  showRow(model, 3);
  expect(originOf(model)).toEqual({ kind: "row", row: 3 });
});

it("sliders go back to the code of the observation", async () => {
  await take(model, [csv("a.csv", 0.5)]);
  view.value = { ...view.value, z: [9, 9, 0, 0, 1] };
  expect(isUnmoved(model)).toBe(false);
  reset(model);
  expect(view.value.z).toEqual([0.5, 0, 1, 0, 0]);
  showRow(model, 3);
  expect(isUnmoved(model)).toBe(true);
});

it("codes beyond those of the data are counted", () => {
  expect(codesBeyond(model, model.code(4))).toBe(0);
  expect(codesBeyond(model, [2.1, -5, 1, 0, 0])).toBe(2);
});

it("a row of a link that the data do not have is the start", () => {
  view.value = { ...view.value, row: 10_000 };
  expect(originOf(model)).toEqual({ kind: "row", row: model.data.start });
});

it("an observation keeps its place in links, whatever the order of the rows", async () => {
  const shuffled = await smallModel();
  shuffled.data.rows.index.reverse();
  showRow(model, 7);
  expect(codeOf(model, originOf(model))).toEqual(model.code(7));
  expect(originOf(shuffled)).toEqual({ kind: "row", row: 49 - 7 });
});

describe("a view with a file that the model has not encoded", () => {
  it("has that file beside the code, and encodes it: after undo to a run that was reopened", async () => {
    await take(model, [csv("a.csv", 0.5)]);
    const [z] = [view.value.z];
    showRow(model, 7);
    const reopened = await smallModel();
    reopened.encode = model.encode;
    models.value = new Map([[reopened.id, reopened]]);
    undo();
    expect(originOf(reopened)).toMatchObject({ kind: "upload", upload: { name: "a.csv" } });
    expect(codeOf(reopened, originOf(reopened))).toBeNull();
    await eventually(() => expect(codeOf(reopened, originOf(reopened))).toEqual(z));
    expect([view.value.z, isUnmoved(reopened)]).toEqual([z, true]);
  });

  it("gets its code, or goes back to the data and says why", async () => {
    await take(model, [csv("a.csv", 0.5)]);
    const other = await smallModel("bbbbbbbbbbbb");
    other.encode = async () => [[3, 0, 1, 0, 0]];
    models.value = new Map([[other.id, other]]);
    const unencoded = { ...view.value, open: [other.id], z: null };
    view.value = unencoded;
    await eventually(() => expect(view.value.z).toEqual([3, 0, 1, 0, 0]));
    const failing = await smallModel("bbbbbbbbbbbb");
    failing.encode = () => Promise.reject(new Error("no memory"));
    models.value = new Map([[other.id, failing]]);
    view.value = unencoded;
    await eventually(() =>
      expect(originOf(failing)).toEqual({ kind: "row", row: failing.data.start }),
    );
    expect(refused.value).toEqual(["The encoder failed on a.csv: no memory."]);
  });
});

describe("an encoder", () => {
  it("that fails is reported, also from the strip", async () => {
    const failing = await smallModel();
    failing.encode = () => Promise.reject(new Error("no memory"));
    models.value = new Map([[failing.id, failing]]);
    await take(failing, [csv("a.csv", 0.5)]);
    expect(refused.value).toEqual(["The encoder failed on a.csv: no memory."]);
    refused.value = [];
    await showUpload(failing, uploads.value[0]!);
    expect(refused.value).toEqual(["The encoder failed on a.csv: no memory."]);
    expect(view.value.z).toBeNull();
  });

  it("whose run was closed meanwhile moves no slider, and newer weights encode again", async () => {
    const newer = await smallModel();
    newer.encode = async () => [[9, 0, 1, 0, 0]];
    const slow = await smallModel();
    slow.encode = async () => {
      models.value = new Map([[newer.id, newer]]);
      return [[1, 0, 1, 0, 0]];
    };
    models.value = new Map([[slow.id, slow]]);
    await take(slow, [csv("a.csv", 0.5)]);
    expect(view.value.z![0]).toBe(9);
    const other = await smallModel("bbbbbbbbbbbb");
    models.value = new Map([
      [other.id, other],
      [slow.id, slow],
    ]);
    view.value = { ...DEFAULTS, open: [slow.id] };
    slow.encode = async () => {
      view.value = { ...view.value, open: [other.id] };
      return [[1, 0, 1, 0, 0]];
    };
    await take(slow, [csv("b.csv", 0.25)]);
    expect(view.value.z).toBeNull();
  });
});
