import { beforeEach, describe, expect, it } from "vitest";
import { canRedo, canUndo, change, decode, DEFAULTS, encode, redo, undo, view } from "../src/state";

beforeEach(() => {
  view.value = DEFAULTS;
});

describe("a link", () => {
  it("opens the same view", () => {
    const shown = {
      ...DEFAULTS,
      open: ["abc"],
      tab: "data" as const,
      z: [0.5, -1.25],
      x: "z:3",
      row: 7,
    };
    expect(decode(`#${encode(shown)}`)).toEqual(shown);
  });

  it("leaves out what is at its default", () => {
    expect(encode(DEFAULTS)).toBe("");
  });

  it("says of an upload only that there was one, and opens a run once", () => {
    expect(encode({ ...DEFAULTS, upload: 3 })).toBe("upload=0");
    expect(decode('upload=3&open=["a","b","a"]')).toEqual({ ...DEFAULTS, open: ["a", "b"] });
  });

  it("with wrong values leaves these at their defaults", () => {
    const hostile =
      'tab="evil"&z=["a"]&row=-1&lasso=[[1]]&open=["a","b","c","d","e"]&images=1&nothing=1&x=<b>';
    expect(decode(hostile)).toEqual(DEFAULTS);
    for (const name of ["__proto__", "constructor", "hasOwnProperty"])
      expect(decode(`${name}=1`)).toEqual(DEFAULTS);
  });
});

describe("undo", () => {
  it("goes back and forth", () => {
    change({ tab: "data" });
    change({ x: "z:1" });
    undo();
    expect(view.value.x).toBe("");
    expect(canRedo.value).toBe(true);
    redo();
    expect(view.value.x).toBe("z:1");
    undo();
    undo();
    expect(view.value.tab).toBe("traversals");
    expect(canUndo.value).toBe(false);
  });

  it("does not stop at changes that change nothing", () => {
    change({ z: [1, 2] });
    change({ z: [1, 2], tab: "traversals" });
    undo();
    expect(view.value.z).toBeNull();
  });

  it("takes the moves of one slider together", () => {
    change({ z: [1] }, "slider 0");
    change({ z: [2] }, "slider 0");
    change({ z: [3] }, "slider 0");
    undo();
    expect(view.value.z).toBeNull();
  });
});
