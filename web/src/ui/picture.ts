/** A drawing of an element of the page as SVG: its canvases, drawings, texts and backgrounds. */

const SVG = "http://www.w3.org/2000/svg";

/** Controls are left out, except what is chosen, the heads of tables, and keys of colours. */
const CONTROLS = "button, input, textarea, label:has(input), option, script, style, .choose";
const TEXTS = "th button, td button, .key, .in-export";

/** An SVG file of an element, everything where it lies on the page. */
export function svgText(element: HTMLElement): string {
  const frame = element.getBoundingClientRect();
  const root = make("svg", { width: frame.width, height: frame.height });
  root.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  root.append(make("rect", { width: frame.width, height: frame.height, fill: background(element) }));
  root.append(...drawings(element, frame));
  return legal(new XMLSerializer().serializeToString(root));
}

/** Replace what XML 1.0 does not allow: control characters and halves of surrogate pairs. */
export function legal(text: string): string {
  return text.replaceAll(/[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu, "\u{FFFD}");
}

function make(name: string, attributes: Record<string, string | number>): SVGElement {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** The colour behind an element. */
function background(element: Element | null): string {
  if (!element) return "white";
  const colour = getComputedStyle(element).backgroundColor;
  return isClear(colour) ? background(element.parentElement) : colour;
}

function isClear(colour: string): boolean {
  return colour === "" || colour === "transparent" || /^rgba\(.*, 0\)$/.test(colour);
}

/** Everything that an element draws, from the back to the front. */
function* drawings(element: HTMLElement, frame: DOMRect): Generator<SVGElement> {
  for (const node of shownNodes(element)) {
    if (node instanceof Text) yield* lines(node, element, frame);
    else if (node instanceof HTMLSelectElement) yield* chosen(node, frame);
    else if (isPicture(node)) yield* picture(node, element, frame);
    else yield* filled(node as HTMLElement, element, frame);
  }
}

/** Nodes below an element in their order, without controls and what is hidden. */
function* shownNodes(parent: Element): Generator<Element | Text> {
  for (const node of parent.childNodes) {
    if (node instanceof Text) {
      if (node.data.trim()) yield node;
    } else if (node instanceof Element && !isLeftOut(node)) {
      yield node;
      if (!isPicture(node) && !(node instanceof HTMLSelectElement)) yield* shownNodes(node);
    }
  }
}

function isLeftOut(element: Element): boolean {
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility === "hidden") return true;
  return element.matches(CONTROLS) && !element.matches(TEXTS);
}

type Picture = HTMLCanvasElement | HTMLImageElement | SVGSVGElement;

function isPicture(node: Node): node is Picture {
  return node instanceof HTMLCanvasElement || node instanceof HTMLImageElement || node instanceof SVGSVGElement;
}

function* picture(child: Picture, element: HTMLElement, frame: DOMRect): Generator<SVGElement> {
  const box = child.getBoundingClientRect();
  if (box.width === 0 || box.height === 0 || !isInSight(box, child, element)) return;
  const place = { x: box.x - frame.x, y: box.y - frame.y, width: box.width, height: box.height };
  if (child instanceof SVGSVGElement) yield withPlace(copied(child), place);
  else yield withPlace(make("image", { href: pixels(child), style: "image-rendering:pixelated" }), place);
}

function withPlace(element: SVGElement, place: Record<string, number>): SVGElement {
  for (const [key, value] of Object.entries(place)) element.setAttribute(key, String(value));
  return element;
}

/** The pixels as a data URL. A canvas with WebGL must keep what it has drawn. */
function pixels(source: HTMLCanvasElement | HTMLImageElement): string {
  if (source instanceof HTMLCanvasElement) return source.toDataURL();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [source.naturalWidth, source.naturalHeight];
  canvas.getContext("2d")!.drawImage(source, 0, 0);
  return canvas.toDataURL();
}

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "display", "visibility", "overflow", "paint-order", "text-anchor", "dominant-baseline",
];
const FONT = ["font-size", "font-family", "font-weight", "font-style", "letter-spacing", "font-variant-numeric"];

/** A copy of a drawing with the styles that it gets from the page's style sheet. */
function copied(child: SVGSVGElement): SVGSVGElement {
  const copy = child.cloneNode(true) as SVGSVGElement;
  inline(child, copy);
  return copy;
}

function inline(from: Element, to: Element): void {
  to.setAttribute("style", styles(from, [...STYLES, ...FONT]));
  Array.from(from.children).forEach((child, n) => inline(child, to.children[n]!));
}

function styles(element: Element, names: readonly string[]): string {
  const style = getComputedStyle(element);
  const values = names.map((name) => [name, style.getPropertyValue(name)] as const);
  return values.filter(([, value]) => value).map(([name, value]) => `${name}:${value}`).join(";");
}

/** The background of an element, such as a swatch of a legend. */
function* filled(child: HTMLElement, element: HTMLElement, frame: DOMRect): Generator<SVGElement> {
  const { backgroundColor, borderTopLeftRadius } = getComputedStyle(child);
  const box = child.getBoundingClientRect();
  if (isClear(backgroundColor) || box.width === 0 || !isInSight(box, child, element)) return;
  const rx = Math.min(parseFloat(borderTopLeftRadius) || 0, box.width / 2);
  const place = { x: box.x - frame.x, y: box.y - frame.y, width: box.width, height: box.height };
  yield withPlace(make("rect", { fill: backgroundColor, rx }), place);
}

/** The text of the chosen option. */
function* chosen(select: HTMLSelectElement, frame: DOMRect): Generator<SVGElement> {
  const option = select.selectedOptions[0];
  const box = select.getBoundingClientRect();
  if (option && box.width > 0) yield written(option.text, select, box, frame);
}

/** One `<text>` for each line of a text. */
function* lines(node: Text, element: HTMLElement, frame: DOMRect): Generator<SVGElement> {
  for (const [text, box] of brokenLines(node)) {
    if (box.width > 0 && isInSight(box, node.parentElement!, element)) {
      yield written(text, node.parentElement!, box, frame);
    }
  }
}

function written(text: string, parent: Element, box: DOMRect, frame: DOMRect): SVGElement {
  const { color, fontSize, paddingLeft } = getComputedStyle(parent);
  const left = parent instanceof HTMLSelectElement ? parseFloat(paddingLeft) : 0;
  const y = box.y - frame.y + box.height / 2 + 0.36 * parseFloat(fontSize); // about the baseline
  const element = make("text", { x: box.x - frame.x + left, y, style: `${styles(parent, FONT)};fill:${color}` });
  element.textContent = text.trim();
  return element;
}

/** A text as the page breaks it into lines. */
function brokenLines(node: Text): [string, DOMRect][] {
  const range = document.createRange();
  range.selectNodeContents(node);
  if (range.getClientRects().length < 2) return [[node.data, range.getBoundingClientRect()]];
  const found: [string, DOMRect][] = [];
  for (const word of node.data.matchAll(/\S+\s*/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].trimEnd().length);
    const box = range.getBoundingClientRect();
    const last = found.at(-1);
    if (last && Math.abs(last[1].y - box.y) < 2) last[0] += word[0];
    else found.push([word[0], box]);
  }
  return found;
}

/** Whether most of a box is within everything that clips it, up to `element`. */
function isInSight(box: DOMRect, child: Element, element: HTMLElement): boolean {
  for (let parent = child.parentElement; parent && parent !== element; parent = parent.parentElement) {
    if (getComputedStyle(parent).overflow !== "visible" && overlap(box, parent.getBoundingClientRect()) < 0.5) return false;
  }
  return true;
}

/** The share of a box that lies within another. */
export function overlap(box: DOMRect, frame: DOMRect): number {
  const width = Math.min(box.right, frame.right) - Math.max(box.left, frame.left);
  const height = Math.min(box.bottom, frame.bottom) - Math.max(box.top, frame.top);
  return (Math.max(width, 0) * Math.max(height, 0)) / (box.width * box.height);
}
