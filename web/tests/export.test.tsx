import { afterEach, describe, expect, it, vi } from "vitest";
import { csvText, scaleOf } from "../src/ui/export";
import { around, drawingOf, edge, legal, overlap, readable, ringOf } from "../src/ui/picture";
import { gathered } from "../src/ui/text-lines";

describe("a CSV file", () => {
  it("quotes separators and quotes, and ends lines with CR LF", () => {
    const table = {
      columns: ["name", "a,b"],
      rows: [
        ['say "hi"\n', 1.5],
        ["", null],
      ],
    };
    expect(csvText(table)).toBe('name,"a,b"\r\n"say ""hi""\n",1.5\r\n,\r\n');
  });

  it("has no text that a spreadsheet takes for a formula", () => {
    const rows = ["=1+1", "+1+1", "-1-x", "-e5", "@x", "\t=1", "\t1"].map((text) => [text]);
    const cells = csvText({ columns: ["x"], rows })
      .split("\r\n")
      .slice(1, -1);
    expect(cells.every((cell) => cell.startsWith("'"))).toBe(true);
    for (const number of [-1, "-1", "+1", "-.5", "-2.5e-3"])
      expect(csvText({ columns: ["x"], rows: [[number]] })).toBe(`x\r\n${number}\r\n`);
  });
});

describe("an SVG file", () => {
  it("has only characters that XML allows", () => {
    expect(legal("a\u0000b\u0008\uD800c\uFFFFd")).toBe("a\uFFFDb\uFFFD\uFFFDc\uFFFDd");
    const fine = "tab\t line\n <b> & é 🙂 \u202E\uFFFD";
    expect(legal(fine)).toBe(fine);
  });

  it("leaves out what is scrolled away", () => {
    const frame = new DOMRect(0, 0, 100, 100);
    expect(overlap(new DOMRect(10, 10, 20, 20), frame)).toBe(1);
    expect(overlap(new DOMRect(90, 0, 20, 10), frame)).toBe(0.5);
    expect(overlap(new DOMRect(0, 101, 20, 10), frame)).toBe(0);
  });
});

describe("the text of a picture", () => {
  const part = (text: string, x: number, y: number, width: number) => ({
    text,
    box: new DOMRect(x, y, width, 10),
  });

  it("keeps the spaces that the page shows, so that words beside it stay apart", () => {
    const [line, ...rest] = gathered([
      part(" ", 30, 0, 4),
      part("of", 34, 0, 12),
      part(" ", 46, 0, 4),
    ]);
    expect([line!.text, line!.box.x, line!.box.right, rest]).toEqual([" of ", 30, 50, []]);
  });

  it("breaks where the page does, without the space at the break", () => {
    const lines = gathered([
      part("two", 0, 0, 20),
      part(" ", 20, 0, 4),
      part("long", 24, 0, 30),
      part(" ", 54, 0, 0),
      part("lines", 0, 15, 30),
    ]);
    expect(lines.map(({ text, box }) => [text, box.x, box.y])).toEqual([
      ["two long", 0, 0],
      ["lines", 0, 15],
    ]);
  });
});

describe("the frames of a picture", () => {
  it("are sharp even shadows, not blurred or shifted ones", () => {
    expect(ringOf("rgb(213, 94, 0) 0px 0px 0px 2px")).toEqual({
      colour: "rgb(213, 94, 0)",
      width: 2,
    });
    expect(ringOf("rgba(0, 0, 0, 0.18) 0px 3px 14px 0px")).toBeNull();
    expect(ringOf("none")).toBeNull();
  });

  it("and borders lie within the box", () => {
    const box = new DOMRect(10, 20, 100, 50);
    const sides = (["top", "right", "bottom", "left"] as const).map((side) => edge(box, side, 2));
    expect(sides.every((strip) => overlap(strip, box) === 1)).toBe(true);
    expect(sides.map(({ x, y }) => [x, y])).toEqual([
      [10, 20],
      [108, 20],
      [10, 68],
      [10, 20],
    ]);
  });

  it("have colours that every program reads", () => {
    expect(readable("color(srgb 1 0.5 0 / 0.25)")).toBe("rgba(255, 128, 0, 0.25)");
    expect(readable("color(srgb 0 0 1)")).toBe("rgba(0, 0, 255, 1)");
    expect(readable("rgb(1, 2, 3)")).toBe("rgb(1, 2, 3)");
  });
});

describe("a picture of a panel", () => {
  afterEach(() => vi.restoreAllMocks());

  it("has a margin around everything, also beyond the panel", () => {
    const frame = around([new DOMRect(20.5, 40, 10, 10), new DOMRect(25, 45, 2000, 5)]);
    expect([frame.x, frame.y, frame.right, frame.bottom]).toEqual([4, 24, 2041, 66]);
  });

  it("has the title, the figure and its key, but no controls and no help, and leaves the page as it was", () => {
    for (const kind of [Element, Range]) {
      vi.spyOn(kind.prototype, "getBoundingClientRect").mockReturnValue(new DOMRect(0, 0, 100, 20));
    }
    const panel = document.createElement("section");
    panel.innerHTML = `
      <header><h2>Title</h2><button>PNG</button></header>
      <p class="help no-export">Drag to move</p><p class="help">3 left out</p>
      <label>Steps <select><option selected>9</option></select></label>
      <fieldset><legend>By value</legend>Range</fieldset>
      <button class="key">class a</button>
      <table style="color: red"><tr><td><button>12 runs</button></td><td><input type="checkbox" checked></td></tr></table>`;
    document.body.append(panel);
    const before = panel.outerHTML;
    const drawn = new DOMParser().parseFromString(drawingOf(panel).text, "image/svg+xml");
    expect(Array.from(drawn.querySelectorAll("text"), (text) => text.textContent)).toEqual([
      "Title",
      "3 left out",
      "class a",
      "12 runs",
      "✓",
    ]);
    expect(panel.outerHTML.replaceAll(' style=""', "")).toBe(before);
    panel.remove();
  });
});

describe("a PNG file", () => {
  it("has twice the pixels of the screen while a browser can hold them", () => {
    expect(scaleOf(800, 600)).toBe(2);
    for (const [width, height] of [
      [1000, 40_000],
      [10_000, 10_000],
      [16_000, 16_000],
    ] as const) {
      const scale = scaleOf(width, height);
      expect(Math.max(width, height) * scale).toBeLessThanOrEqual(16_000);
      expect(width * height * scale * scale).toBeLessThanOrEqual(120e6 + 1);
    }
  });
});
