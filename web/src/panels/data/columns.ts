/** Columns of the rows: latent variables, components, embeddings, factors, errors. */
import type { Factor, Variable } from "../../bundle";
import { classOf, type Model } from "../../model";
import { explains, isolated, significant } from "../../text";
import type { Option } from "../../ui/choice";

export interface Column {
  /** As in the URL: "z:3" (the first column of a variable), "z:3:1", "pca:0", "map:1", "factor:0", "error". */
  key: string;
  name: string;
  /** Classes have no order; ordered values do; numbers are on a scale. */
  kind: "classes" | "ordered" | "number";
  /** One a row: a number, or the index of a value; NaN is missing. */
  values: Float32Array;
  /** Names of values of classes and ordered values. */
  labels: string[];
  /** The dimension of z, if it is one of a continuous variable. */
  dimension: number | null;
}

/** What an axis can show. */
export function axisOptions(model: Model): Option[] {
  const { rows, factors, variables } = model.data;
  const map = rows.embedding ? [0, 1] : [];
  return [
    ...variables.flatMap(variableOptions),
    ...[0, 1].map((n) => ({
      key: `pca:${n}`,
      name: `Principal component ${n + 1}`,
      group: "All latent variables",
    })),
    ...map.map((n) => ({
      key: `map:${n}`,
      name: `${rows.embeddingName} ${n + 1}`,
      group: "All latent variables",
    })),
    ...factors.map((factor, n) => ({ key: `factor:${n}`, name: factor.name, group: "Factors" })),
  ];
}

/** What can colour the points. */
export function colourOptions(model: Model): Option[] {
  const { rows, factors, variables } = model.data;
  return [
    { key: "none", name: "None", group: "" },
    ...factors.map((factor, n) => ({ key: `factor:${n}`, name: factor.name, group: "Factors" })),
    ...variables.flatMap(variableOptions),
    ...(rows.error ? [{ key: "error", name: "Reconstruction error", group: "Other" }] : []),
  ];
}

function variableOptions(variable: Variable): Option[] {
  const group = variable.active ? "Latent variables" : "Unused latent variables";
  const width = variable.discrete ? 1 : variable.columns[1] - variable.columns[0];
  return Array.from({ length: width }, (_, n) => ({
    key: n === 0 ? `z:${variable.number}` : `z:${variable.number}:${n}`,
    name: isolated(dimensionName(variable, n)) + explained(variable),
    group,
  }));
}

/** The factor that a variable explains best, in brackets, if it does so above chance. */
function explained(variable: Variable): string {
  return variable.aboveChance ? ` (${explains(variable)})` : "";
}

function dimensionName(variable: Variable, n: number): string {
  const several = !variable.discrete && variable.columns[1] - variable.columns[0] > 1;
  return several ? `${variable.name}, dimension ${n + 1}` : variable.name;
}

const read = new WeakMap<Model, Map<string, Column | null>>();

/** A column by its key, or null if the model has none. */
export function columnOf(model: Model, key: string): Column | null {
  const known = read.get(model) ?? new Map<string, Column | null>();
  read.set(model, known);
  if (!known.has(key)) known.set(key, readColumn(model, key));
  return known.get(key)!;
}

function readColumn(model: Model, key: string): Column | null {
  const [source, ...numbers] = key.split(":");
  const [n = 0, part = 0] = numbers.map(Number);
  const { rows, factors, variables } = model.data;
  const plain = { key, kind: "number" as const, labels: [], dimension: null };
  if (source === "z") {
    const variable = variables.find((each) => each.number === n);
    return variable ? latentColumn(model, key, variable, part) : null;
  }
  if (source === "factor") return factors[n] ? factorColumn(model, key, factors[n], n) : null;
  if (source === "error")
    return (
      rows.error && {
        ...plain,
        name: "Reconstruction error",
        values: model.bundle.floats(rows.error),
      }
    );
  if ((source !== "pca" && source !== "map") || !(n === 0 || n === 1)) return null;
  const ref = source === "pca" ? rows.pca : rows.embedding;
  const name = source === "pca" ? "Principal component" : rows.embeddingName;
  return (
    ref && { ...plain, name: `${name} ${n + 1}`, values: strided(model.bundle.floats(ref), n, 2) }
  );
}

function latentColumn(model: Model, key: string, variable: Variable, part: number): Column | null {
  const [first, end] = variable.columns;
  const { size, rows } = model.data;
  const column = first + part;
  if (!variable.discrete) {
    if (!(part >= 0 && column < end)) return null;
    const values = strided(model.means, column, size);
    return {
      key,
      name: dimensionName(variable, part),
      kind: "number",
      values,
      labels: [],
      dimension: column,
    };
  }
  const values = Float32Array.from({ length: rows.count }, (_, row) =>
    classOf(variable, model.code(row)),
  );
  const labels = Array.from({ length: variable.classes }, (_, c) => String(c));
  return { key, name: variable.name, kind: "classes", values, labels, dimension: null };
}

function factorColumn(model: Model, key: string, factor: Factor, n: number): Column {
  const values = strided(model.factors, n, model.data.factors.length);
  const kind = factor.continuous ? "number" : factor.ordered ? "ordered" : "classes";
  return { key, name: factor.name, kind, values, labels: factor.values, dimension: null };
}

function strided(values: Float32Array, first: number, step: number): Float32Array {
  const count = Math.floor(values.length / step);
  return Float32Array.from({ length: count }, (_, n) => values[n * step + first]!);
}

/** A value as text: the name of a class, or a rounded number. */
export function textOf(column: Column, value: number): string {
  if (Number.isNaN(value)) return "missing";
  return column.labels[value] ?? significant(value, 4);
}

const HALF_WIDTH = 0.32;

/** Where points lie along an axis. Classes are spread around their place, or they would hide each other. */
export function placesOf(column: Column): Float32Array {
  if (column.kind === "number") return column.values;
  const seed = [...column.key].reduce(
    (sum, letter) => Math.imul(sum, 31) + letter.charCodeAt(0),
    7,
  );
  return column.values.map((value, row) => value + HALF_WIDTH * (2 * scatter(row, seed) - 1));
}

/** A number from 0 to 1 that looks random, but is the same for a row every time (as in MurmurHash3). */
function scatter(row: number, seed: number): number {
  let mixed = Math.imul((row + 1) ^ seed, 0x9e3779b1);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
}

/** The two variables of the most information about the data, continuous ones first; then whatever there is. */
export function defaultAxes(model: Model): [string, string] {
  const known = [...model.data.variables].sort(
    (a, b) => +a.discrete - +b.discrete || b.information - a.information,
  );
  const keys = [
    ...known.map((variable) => `z:${variable.number}`),
    ...axisOptions(model).map(({ key }) => key),
  ];
  const [x, y] = [...new Set(keys)];
  return [x!, y!];
}

/** The factor that the variable on the x axis explains best. */
export function defaultColour(model: Model, x: string): string {
  const name = model.data.variables.find((variable) => x === `z:${variable.number}`)?.factor;
  const factor = model.data.factors.findIndex((each) => each.name === name);
  return factor < 0 ? "none" : `factor:${factor}`;
}
