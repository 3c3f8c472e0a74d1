/** Names in any script leave the order of the text around them alone, also in what screen readers say. */
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunData } from "../src/bundle";
import { uploads } from "../src/origin";
import { Factors } from "../src/panels/factors/factors";
import { Interpolate } from "../src/panels/interpolate";
import { RunPicker } from "../src/panels/picker";
import { allColumns } from "../src/panels/runs/columns";
import { parseFilter, resolve } from "../src/panels/runs/filter";
import { groupSeeds } from "../src/panels/runs/groups";
import { shadesOf } from "../src/panels/runs/shades";
import { Runs } from "../src/panels/runs/tab";
import { Selected } from "../src/panels/data/selected";
import { Stage } from "../src/panels/stage";
import { DEFAULTS, failures, manifest, models, view } from "../src/state";
import { isolated } from "../src/text";
import { numbersOf } from "../src/upload/csv";
import { runData, smallModel } from "./fixture";

const OVERRIDE = "\u202E";
const NAMES = {
  overridden: `${OVERRIDE}eman`,
  hebrew: "\u05D2\u05D5\u05D3\u05DC",
  arabic: "\u0644\u0648\u0646",
  escaping: `\u2069${OVERRIDE}x\u2068`,
};

HTMLCanvasElement.prototype.getContext = () => ({ putImageData: () => undefined }) as never;

/** What of a text lies outside of all isolates; an isolate that is not ended takes all that follows. */
function outside(text: string): string {
  let depth = 0;
  return Array.from(text)
    .filter((letter) => {
      if (/[\u2066-\u2068]/.test(letter)) depth++;
      if (letter === "\u2069") depth = Math.max(depth - 1, 0);
      return depth === 0 && letter !== "\u2069";
    })
    .join("");
}

it.each(Object.values(NAMES))("%j ends with the text around it in order", (name) => {
  expect(outside(`before ${isolated(name)} after`)).toBe("before  after");
});

describe.each(Object.entries(NAMES))("a sentence with names, %s,", (_, name) => {
  const message = (action: () => unknown): string => {
    try {
      return String(action());
    } catch (error) {
      return (error as Error).message;
    }
  };

  it("keeps the order of its own words", () => {
    const runs = [run("first", name), run("other", name)];
    const columns = allColumns(runs, {});
    const table = { names: [`${name}0`], rows: [[name]] };
    const shades = columns.flatMap((column) =>
      shadesOf(runs, column).legend.filter((item) => item.name.includes(name)),
    );
    const many = Array.from({ length: 9 }, (_, n) => ({ ...runs[0]!, scores: { [name]: n } }));
    const score = allColumns(many, {}).find(({ kind }) => kind === "score")!;
    const texts = [
      message(() => numbersOf(table, 1, [`${name}0`])),
      message(() => numbersOf(table, 2, [`${name}0`, `${name}1`])),
      message(() => resolve(`${name}?`, columns)),
      message(() =>
        resolve(
          name,
          [`${name}/a`, `${name}/b`].map((key) => ({ ...score, key })),
        ),
      ),
      message(() => parseFilter(`seed>${name}`, columns)),
      ...groupSeeds(runs).map((group) => group.name),
      ...shades.map((item) => item.name),
      ...shadesOf(many, score).legend.map((item) => item.name),
    ];
    const turning = name.includes(OVERRIDE) ? OVERRIDE : name[0]!;
    expect(texts.length).toBeGreaterThan(9);
    for (const text of texts.slice(0, 5)) expect(text).toContain(turning);
    expect(texts.filter((text) => outside(text).includes(turning))).toEqual([]);
  });
});

describe.each(Object.entries(NAMES))("the names of everything, %s,", (_, name) => {
  const page = document.createElement("div");

  beforeAll(async () => {
    const [model, other] = [await smallModel("first"), await smallModel("other", -1)];
    for (const { data } of [model, other]) {
      data.variables.forEach((variable, n) =>
        Object.assign(variable, { name: name + n, factor: name }),
      );
      data.factors.forEach((factor) =>
        Object.assign(factor, { name, values: factor.values.map((value) => name + value) }),
      );
      data.rows.names = data.rows.index.map(() => name);
    }
    manifest.value = {
      ...manifest.value,
      runs: [run("first", name), run("other", name), run("failed", name)],
    };
    models.value = new Map([
      ["first", model],
      ["other", other],
    ]);
    failures.value = new Map([["failed", "it is gone"]]);
    view.value = { ...DEFAULTS, open: ["first", "other", "failed"], unused: true, filter: "" };
    uploads.value = [
      {
        id: 1,
        name,
        note: "",
        numbers: new Float64Array(16),
        shape: model.shape.join(),
        codes: new WeakMap(),
      },
    ];
    const rows = [1, 2, 3];
    act(() =>
      render(
        <>
          <RunPicker />
          <Stage model={model} />
          <Interpolate model={model} />
          <Factors model={model} />
          <Selected model={model} rows={rows} />
          <Runs model={model} />
        </>,
        page,
      ),
    );
  });

  afterAll(() => act(() => render(null, page)));

  it("are isolated in what is read aloud", () => {
    const texts = [...page.querySelectorAll("[aria-label], [title], [aria-valuetext]")].flatMap(
      (element) =>
        ["aria-label", "title", "aria-valuetext"].map(
          (attribute) => element.getAttribute(attribute) ?? "",
        ),
    );
    texts.push(...Array.from(page.querySelectorAll("title"), (title) => title.textContent!));
    const turning = name.includes(OVERRIDE) ? OVERRIDE : name[0]!;
    const naming = texts.filter((text) => text.includes(turning));
    expect(naming.length).toBeGreaterThan(20);
    const isName = (text: string) => text.startsWith(name) && text.length <= name.length + 1;
    expect(naming.filter((text) => !isName(text) && outside(text).includes(turning))).toEqual([]);
  });
});

function run(id: string, name: string): RunData {
  const log = { step: [1], terms: { [name]: [1] } };
  const settings = { [name]: id === "first" ? name : "b", seed: 0 };
  const scores = { [`${name}1`]: 1 };
  return runData(id, { name, state: "running", settings, scores, log, reason: "is gone" });
}
