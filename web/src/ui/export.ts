/** Save what a panel shows as PNG, SVG or CSV. */
import { drawingOf } from "./picture";

export interface Csv {
  columns: string[];
  rows: (string | number | null)[][];
}

export function saveCsv(table: Csv, name: string): void {
  save(new Blob([csvText(table)], { type: "text/csv" }), name);
}

/** CSV as RFC 4180 has it. Text that a spreadsheet would take for a formula starts with a quote;
 * a number is none. */
export function csvText({ columns, rows }: Csv): string {
  return [columns, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}

const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function saveSvg(element: HTMLElement, name: string): void {
  save(new Blob([drawingOf(element).text], { type: "image/svg+xml" }), name);
}

/** Save a picture with twice the pixels of the screen, or fewer if the browser cannot hold them. */
export async function savePng(element: HTMLElement, name: string): Promise<void> {
  const { text, width, height } = drawingOf(element);
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  const scale = scaleOf(width, height);
  [canvas.width, canvas.height] = [Math.ceil(width * scale), Math.ceil(height * scale)];
  canvas.getContext("2d")!.drawImage(picture, 0, 0, canvas.width, canvas.height);
  save(await png(canvas), name);
}

const LARGEST_SIDE = 16_000; // what browsers hold in a canvas
const LARGEST_AREA = 120e6;

export function scaleOf(width: number, height: number): number {
  return Math.min(
    2,
    LARGEST_SIDE / Math.max(width, height),
    Math.sqrt(LARGEST_AREA / (width * height)),
  );
}

function png(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) => {
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large"))),
      "image/png",
    );
  });
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
