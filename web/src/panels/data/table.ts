/** Rows of the data as tables. */
import type { Model } from "../../model";
import type { Csv } from "../../ui/export";
import type { Cloud } from "./cloud";
import { textOf, type Column } from "./columns";
import { factorTexts } from "./hover";

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
      ...factorTexts(model, row).map(([, text]) => (text === "missing" ? "" : text)),
    ]),
  };
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
      ...columns.map((column) =>
        column.kind === "number" ? column.values[row]! : textOf(column, column.values[row]!),
      ),
    ]),
  };
}
