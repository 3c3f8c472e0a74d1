/** Settings and their values in plain words. */
import { own } from "../../own";
import type { Value } from "./columns";

const WORDS: Record<string, string> = {
  lr: "learning rate",
  eps: "epsilon",
  init: "initial weights",
  base: "channels of the first layer",
  hidden: "hidden units",
};
const LEFT_OUT = ["objective", "optimiser"]; // "objective.beta" is called "beta"

/** The name of a setting in words; without the part of the run where it is clear. */
export function settingName(key: string): string {
  const [first, ...rest] = key.split(".");
  const parts = rest.length > 0 && LEFT_OUT.includes(first!) ? rest : [first!, ...rest];
  return parts.map((part) => own(WORDS, part) ?? part.replaceAll("_", " ")).join(" ");
}

/** A value as people write it: without the brackets of lists and the quotation marks in them. What
 * is nested in a list stays as it is stored. */
export function plainValue(value: Value): string {
  if (value === undefined || value === null) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return numberText(value);
  const list = listIn(value);
  return list ? list.map(itemText).join(", ") || "none" : value;
}

function itemText(item: unknown): string {
  const nested = typeof item === "object" && item !== null;
  return nested ? JSON.stringify(item) : plainValue(item as Value);
}

function listIn(text: string): unknown[] | null {
  if (!text.startsWith("[")) return null;
  try {
    return JSON.parse(text) as unknown[];
  } catch {
    return null;
  }
}

/** Four significant digits; whole numbers as they are. */
export function numberText(value: number): string {
  return minus(Number.isInteger(value) ? String(value) : String(+value.toPrecision(4)));
}

/** Numbers of one column with as many decimals: three below 10, and none from 1,000. If all are
 * below 0.01, as many significant digits instead. */
export function columnText(values: readonly number[]): (value: number) => string {
  const largest = Math.max(...values.map(Math.abs));
  if (largest > 0 && largest < 0.01) return numberText;
  const decimals = Math.max(3 - Math.floor(Math.log10(Math.max(largest, 1))), 0);
  return (value) => minus(value.toFixed(Math.min(decimals, 3)));
}

function minus(text: string): string {
  return /[1-9]/.test(text) ? text.replace(/^-/, "−") : text.replace(/^-/, "");
}
