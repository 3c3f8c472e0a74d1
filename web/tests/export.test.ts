import { describe, expect, it } from "vitest";
import { csvText, scaleOf } from "../src/ui/export";
import { legal, overlap } from "../src/ui/picture";

describe("a CSV file", () => {
  it("quotes separators and quotes, and ends lines with CR LF", () => {
    const table = { columns: ["name", "a,b"], rows: [['say "hi"\n', 1.5], ["", null]] };
    expect(csvText(table)).toBe('name,"a,b"\r\n"say ""hi""\n",1.5\r\n,\r\n');
  });

  it("has no text that a spreadsheet takes for a formula", () => {
    const rows = ["=1+1", "+1", "-1", "@x", "\t=1"].map((text) => [text]);
    const cells = csvText({ columns: ["x"], rows }).split("\r\n").slice(1, -1);
    expect(cells.every((cell) => cell.startsWith("'"))).toBe(true);
    expect(csvText({ columns: ["x"], rows: [[-1]] })).toBe("x\r\n-1\r\n");
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

describe("a PNG file", () => {
  it("has twice the pixels of the screen while a browser can hold them", () => {
    expect(scaleOf(800, 600)).toBe(2);
    for (const [width, height] of [[1000, 40_000], [10_000, 10_000], [16_000, 16_000]] as const) {
      const scale = scaleOf(width, height);
      expect(Math.max(width, height) * scale).toBeLessThanOrEqual(16_000);
      expect(width * height * scale * scale).toBeLessThanOrEqual(120e6 + 1);
    }
  });
});
