/** Numbers and names as text. */
import type { Variable } from "./bundle";
import type { Model } from "./model";

/** "explains 87% of size", or "" without known factors. */
export function explains({ factor, share }: Pick<Variable, "factor" | "share">): string {
  return factor === null ? "" : `explains ${percent(share)} of ${isolated(factor)}`;
}

/** "87%". */
export function percent(share: number, digits = 0): string {
  return `${(100 * share).toFixed(digits)}%`;
}

/** "7,000", as ticks of axes are written. */
export function thousands(count: number): string {
  return count.toLocaleString("en-US");
}

/** A number with so many significant digits, without trailing zeros: "−2.5". */
export function significant(value: number, digits: number): string {
  return String(+value.toPrecision(digits)).replace(/^-/, "−");
}

/** Text of at most `most` characters, at least 3, with "…" for the rest. */
export function shortened(text: string, most: number): string {
  const room = Math.max(Math.floor(most), 3);
  // Not by `slice`, which could cut a character of two code units in halves.
  const letters = Array.from(text);
  return letters.length > room ? `${letters.slice(0, room - 1).join("")}…` : text;
}

const OTHER_WAY =
  /[\p{Bidi_Control}\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

/** A name that leaves the order of the text around it alone, for where there can be no <bdi>. */
export function isolated(name: string): string {
  return OTHER_WAY.test(name) ? `\u2068${balanced(name)}\u2069` : name;
}

/** A name that ends every isolate that it begins, and no other. */
function balanced(name: string): string {
  let begun = 0;
  const kept = Array.from(name).filter((letter) => {
    const change = /[\u2066-\u2068]/.test(letter) ? 1 : letter === "\u2069" ? -1 : 0;
    if (begun + change < 0) return false;
    begun += change;
    return true;
  });
  return kept.join("") + "\u2069".repeat(begun);
}

/** A row's name, or its number in the data. */
export function rowName({ data: { rows } }: Model, row: number): string {
  return rows.names[row] || `row ${rows.index[row]}`;
}

/** The text of what was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
