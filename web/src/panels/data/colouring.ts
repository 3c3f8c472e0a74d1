/** Colours, sizes and order of the points of the scatter. */
import { quantile } from "d3-array";
import type { Rgb } from "../../colours";
import { classColour, MISSING, scaleColour } from "../../scatter/palette";
import { SIXTEENTHS, type Look } from "../../scatter/renderer";
import { textOf, type Column } from "./columns";

export interface ClassEntry {
  value: number;
  name: string;
  colour: Rgb;
  count: number;
}

export interface Colouring {
  /** What the colours show, or "" for nothing. */
  name: string;
  key: string;
  /** Classes by their index, or [] if there are none. */
  classes: ClassEntry[];
  /** The ends of a scale of colours, or null. */
  scale: [number, number] | null;
  /** Names of the ends. */
  ends: [string, string];
  /** Rows without a value, which are grey. */
  missing: number;
  colour: (row: number) => Rgb;
}

/** Points of one colour, which the page must not hide. */
const PLAIN = { light: classColour(0), dark: classColour(4) };

export function colouring(column: Column | null, dark = false): Colouring {
  if (!column) {
    return {
      name: "",
      key: "none",
      classes: [],
      scale: null,
      ends: ["", ""],
      missing: 0,
      colour: () => PLAIN[dark ? "dark" : "light"],
    };
  }
  const { name, key, values } = column;
  const missing = values.reduce((count, value) => count + +Number.isNaN(value), 0);
  if (column.kind === "classes") return { ...byClass(column), name, key, missing };
  const scale =
    column.kind === "ordered"
      ? ([0, Math.max(column.labels.length - 1, 1)] as [number, number])
      : middle(values);
  const width = scale[1] - scale[0] || 1;
  const ends: [string, string] = [textOf(column, scale[0]), textOf(column, scale[1])];
  const colour = (row: number) =>
    Number.isNaN(values[row]!) ? MISSING : scaleColour((values[row]! - scale[0]) / width, dark);
  return { name, key, classes: [], scale, ends, missing, colour };
}

function byClass({
  values,
  labels,
}: Column): Pick<Colouring, "classes" | "scale" | "ends" | "colour"> {
  const classes = labels.map((name, value) => ({
    value,
    name,
    colour: classColour(value),
    count: 0,
  }));
  for (const value of values) if (classes[value]) classes[value].count++;
  const colour = (row: number) => classes[values[row]!]?.colour ?? MISSING;
  return { classes, scale: null, ends: ["", ""], colour };
}

/** Nearly the whole range: a few extreme values would make all others look alike. */
function middle(values: Float32Array): [number, number] {
  const known = values.filter((value) => Number.isFinite(value));
  return [quantile(known, 0.01) ?? 0, quantile(known, 0.99) ?? 1];
}

/** The diameter of points in pixels, and their opacity, by how many there are. */
export function density(count: number): { diameter: number; opacity: number } {
  const crowd = Math.min(Math.max(Math.log10(Math.max(count, 1)) - 2, 0), 3) / 3;
  return { diameter: 7 - 4.5 * crowd, opacity: 0.9 - 0.35 * crowd };
}

const FAINT = 0.12;

/** The look of the points: those that are not selected are faint, and below the others. */
export function lookOf(
  colours: Colouring,
  rows: Uint32Array,
  total: number,
  selected: ReadonlySet<number> | null,
): Look {
  const { diameter, opacity } = density(rows.length);
  const rgba = new Uint8Array(4 * total);
  const sizes = new Uint8Array(total).fill(Math.round(diameter * SIXTEENTHS));
  const alpha = Math.round(255 * opacity);
  const faint = Math.round(255 * opacity * FAINT);
  for (const row of rows) {
    const [r, g, b] = colours.colour(row);
    const at = row * 4;
    rgba[at] = r;
    rgba[at + 1] = g;
    rgba[at + 2] = b;
    rgba[at + 3] = !selected || selected.has(row) ? alpha : faint;
  }
  return { rgba, sizes, order: selected ? selectedLast(rows, selected) : rows };
}

function selectedLast(rows: Uint32Array, selected: ReadonlySet<number>): Uint32Array {
  return Uint32Array.from([
    ...rows.filter((row) => !selected.has(row)),
    ...rows.filter((row) => selected.has(row)),
  ]);
}
