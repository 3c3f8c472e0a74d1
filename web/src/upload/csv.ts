/** Read observations from a CSV file: rows of numbers, with or without the names of columns. */
import { isolated } from "../text";

export interface Table {
  /** Names of the columns, or null if the first line has numbers only. */
  names: string[] | null;
  rows: string[][];
}

/** Read lines of cells. Names of columns may be numbers too, if they are those of the model. */
export function readTable(text: string, names: readonly string[]): Table {
  const lines = parse(text.replace(/^\uFEFF/, ""));
  const [first] = lines;
  if (!first) throw new Error("it is empty");
  const known = new Map(names.map((name) => [canonical(name), name]));
  const isHeader =
    !first.every(isNumber) ||
    (lines.length > 1 && first.every((cell) => known.has(canonical(cell))));
  if (!isHeader) return { names: null, rows: lines };
  return { names: first.map((cell) => known.get(canonical(cell)) ?? cell), rows: lines.slice(1) };
}

/** Numbers in one form, so that 400 is 400.0. */
function canonical(name: string): string {
  return isNumber(name) ? String(Number(name)) : name.trim();
}

/** Whether there is any number in a table, or in the names of its columns. */
export function hasNumbers({ names, rows }: Table): boolean {
  return [names ?? [], ...rows].some((line) => line.some(isNumber));
}

function isNumber(cell: string): boolean {
  return cell.trim() !== "" && Number.isFinite(Number(cell));
}

/** Lines of cells, separated by commas, semicolons or tabs, whichever the first line has most of. */
function parse(text: string): string[][] {
  const first = text.slice(0, text.search(/[\r\n]|$/));
  const count = (separator: string) => first.split(separator).length;
  const separator = [",", ";", "\t"].sort((a, b) => count(b) - count(a))[0]!;
  const cells = new RegExp(
    `(?:"((?:[^"]|"")*)"|([^"${separator}\\r\\n]*))(${separator}|\\r\\n|\\n|\\r|$)`,
    "gy",
  );
  const lines: string[][] = [[]];
  for (let found = cells.exec(text); found; found = cells.exec(text)) {
    lines.at(-1)!.push(found[1] === undefined ? found[2]! : found[1].replaceAll('""', '"'));
    if (cells.lastIndex >= text.length) break;
    if (found[3] !== separator) lines.push([]);
  }
  return lines.filter((line) => line.some((cell) => cell.trim() !== ""));
}

/** The numbers of every row in the order of the model's columns. */
export function numbersOf(table: Table, length: number, names: readonly string[]): number[][] {
  const order = columnsOf(table, length, names);
  return table.rows.map((row, line) =>
    order.map((column, n) => {
      const cell = row[column] ?? "";
      if (isNumber(cell)) return Number(cell);
      throw new Error(
        `row ${line + 1} has "${isolated(cell)}" in the column ${isolated(names[n] ?? String(n + 1))}. It needs a number`,
      );
    }),
  );
}

function columnsOf(table: Table, length: number, names: readonly string[]): number[] {
  const width = table.names?.length ?? table.rows[0]?.length ?? 0;
  const byName = names.map((name) => table.names?.indexOf(name) ?? -1);
  if (byName.length === length && byName.every((column) => column >= 0)) return byName;
  if (width === length) return Array.from({ length }, (_, n) => n);
  const missing = table.names ? names.filter((_, n) => byName[n]! < 0) : [];
  const which =
    missing.length > 0 && missing.length < names.length
      ? `, without ${missing.slice(0, 3).map(isolated).join(", ")}`
      : "";
  throw new Error(`it has ${width} columns${which}. The model needs ${length} numbers per row`);
}
