/** Rows of the data as tables. */
import type { Model } from "../../model";
import type { Csv } from "../../ui/export";
import type { Cloud } from "./cloud";
import { columnOf, type Column } from "./columns";

/** The rows with their index, name, code and factors. */
export function rowsTable(model: Model, rows: readonly number[]): Csv {
  const { index, names } = model.data.rows;
  return {
    columns: [
      "row",
      "name",
      ...dimensionNames(model),
      ...model.data.factors.map(({ name }) => name),
    ],
    rows: rows.map((row) => [
      index[row] ?? row,
      names[row] ?? "",
      ...model.code(row),
      ...model.data.factors.map((_, n) => cell(columnOf(model, `factor:${n}`)!, row)),
    ]),
  };
}

/** The name of a class, or a number; null if it is missing. */
function cell({ values, labels }: Column, row: number): string | number | null {
  const value = values[row]!;
  return Number.isNaN(value) ? null : (labels[value] ?? value);
}

/** A name for every dimension of z, in order. */
export function dimensionNames(model: Model): string[] {
  const names = new Array<string>(model.data.size).fill("");
  for (const {
    name,
    columns: [first, end],
  } of model.data.variables) {
    for (let column = first; column < end; column++)
      names[column] = end - first > 1 ? `${name}[${column - first}]` : name;
  }
  return names;
}

/** What the scatter shows of every row. */
export function scatterTable(model: Model, cloud: Cloud, colour: Column | null): Csv {
  const { index, names } = model.data.rows;
  const columns = [cloud.x, cloud.y, ...(colour ? [colour] : [])];
  return {
    columns: ["row", "name", ...columns.map(({ name }) => name)],
    rows: Array.from(cloud.rows, (row) => [
      index[row] ?? row,
      names[row] ?? "",
      ...columns.map((column) => cell(column, row)),
    ]),
  };
}
