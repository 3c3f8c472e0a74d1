/** Save what a panel shows as PNG, SVG or CSV. */

export interface Csv {
  columns: string[];
  rows: (string | number | null)[][];
}

export function saveCsv(table: Csv, name: string): void {
  save(new Blob([csvText(table)], { type: "text/csv" }), name);
}

/** CSV as RFC 4180 has it. Text that a spreadsheet would take for a formula starts with a quote. */
export function csvText({ columns, rows }: Csv): string {
  return [columns, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}

function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function saveSvg(element: HTMLElement, name: string): void {
  save(new Blob([svgText(element)], { type: "image/svg+xml" }), name);
}

export async function savePng(element: HTMLElement, name: string): Promise<void> {
  const { width, height } = element.getBoundingClientRect();
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(element))}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.ceil(width * 2), Math.ceil(height * 2)];
  canvas.getContext("2d")!.drawImage(picture, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => blob && save(blob, name), "image/png");
}

/** An SVG of the canvases, drawings and texts of an element, where they lie on the page. */
export function svgText(element: HTMLElement): string {
  const frame = element.getBoundingClientRect();
  const parts: string[] = [];
  for (const child of element.querySelectorAll<HTMLElement | SVGSVGElement>("canvas, svg")) {
    if (child.parentElement?.closest("svg")) continue;
    const box = child.getBoundingClientRect();
    parts.push(placed(child, box.x - frame.x, box.y - frame.y, box.width, box.height));
  }
  parts.push(...texts(element, frame));
  const background = getComputedStyle(document.body).backgroundColor;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${frame.width}" height="${frame.height}">` +
    `<rect width="100%" height="100%" fill="${background}"/>${parts.join("")}</svg>`
  );
}

function placed(child: HTMLElement | SVGSVGElement, x: number, y: number, w: number, h: number): string {
  if (child instanceof HTMLCanvasElement) {
    return `<image x="${x}" y="${y}" width="${w}" height="${h}" href="${child.toDataURL()}" style="image-rendering:pixelated"/>`;
  }
  const copy = child.cloneNode(true) as SVGSVGElement;
  inlineStyles(child, copy);
  for (const [key, value] of Object.entries({ x, y, width: w, height: h })) copy.setAttribute(key, String(value));
  return new XMLSerializer().serializeToString(copy);
}

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-family", "text-anchor"];

/** Copy the styles that a drawing gets from the page's style sheet. */
function inlineStyles(from: Element, to: Element): void {
  const style = getComputedStyle(from);
  to.setAttribute("style", STYLES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  Array.from(from.children).forEach((child, n) => inlineStyles(child, to.children[n]!));
}

/** The texts of an element outside of drawings, one `<text>` for each line of text. */
function* texts(element: HTMLElement, frame: DOMRect): Generator<string> {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode as Text;
    const parent = node.parentElement!;
    if (!node.data.trim() || parent.closest("svg, button:not(.key, .in-export), select, option")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width === 0) continue;
    const style = getComputedStyle(parent);
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.textContent = node.data;
    text.setAttribute("x", String(box.x - frame.x));
    text.setAttribute("y", String(box.y - frame.y + box.height * 0.78));
    text.setAttribute("style", `font:${style.font};fill:${style.color}`);
    yield new XMLSerializer().serializeToString(text);
  }
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
