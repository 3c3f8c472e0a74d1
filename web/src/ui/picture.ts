/** A drawing of an element of the page as SVG: its canvases, drawings, texts, backgrounds and frames. */
import { gathered, partsOf } from "./text-lines";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 16; // pixels around the drawing

/** Controls are left out, except what is chosen, the cells of tables, and keys of colours. */
const CONTROLS =
  "button, input, select, textarea, fieldset, summary, label:has(input, select, textarea), script, style, .spoken, .choose, .no-export";
const SHOWN = "th button, td button, td input, .key, .in-export";

/** An SVG file and its size in pixels. */
export interface Drawing {
  text: string;
  width: number;
  height: number;
}

/** A part of a drawing, and where it lies in the window. */
interface Piece {
  drawn: SVGElement;
  box: DOMRect;
}

/** A drawing of an element with a margin, everything where it lies on the page. */
export function drawingOf(element: HTMLElement): Drawing {
  return laidOut(element, () => {
    const pieces = [...piecesOf(element)];
    const frame = around(pieces.map(({ box }) => box));
    const root = make("svg", {
      width: frame.width,
      height: frame.height,
      viewBox: `0 0 ${frame.width} ${frame.height}`,
    });
    root.append(
      make("rect", { width: frame.width, height: frame.height, fill: background(element) }),
    );
    const placed = make("g", { transform: `translate(${-frame.x} ${-frame.y})` });
    placed.append(...pieces.map(({ drawn }) => drawn));
    root.append(placed);
    return {
      text: legal(new XMLSerializer().serializeToString(root)),
      width: frame.width,
      height: frame.height,
    };
  });
}

/** The smallest box of whole pixels around others, with a margin. */
export function around(boxes: readonly DOMRect[]): DOMRect {
  const least = (side: "left" | "top") =>
    Math.floor(boxes.reduce((found, box) => Math.min(found, box[side]), Infinity)) - MARGIN;
  const most = (side: "right" | "bottom") =>
    Math.ceil(boxes.reduce((found, box) => Math.max(found, box[side]), -Infinity)) + MARGIN;
  if (boxes.length === 0) return new DOMRect(0, 0, 2 * MARGIN, 2 * MARGIN);
  const [x, y] = [least("left"), least("top")];
  return new DOMRect(x, y, most("right") - x, most("bottom") - y);
}

/**
 * Look at an element while controls take no room and nothing is scrolled or cut. All of it happens
 * before the browser paints again, so that nobody sees it.
 */
function laidOut<Result>(element: HTMLElement, look: () => Result): Result {
  const all = Array.from(element.querySelectorAll<HTMLElement>("*")).filter(
    (each) => each instanceof HTMLElement,
  );
  const changes = all.map((each) => [each, unfolded(each)] as const).filter(([, change]) => change);
  const undo = changes.map(([each]) => restorer(each));
  const { scrollX, scrollY } = window;
  try {
    for (const [each, change] of changes) each.style.cssText += `;${change}`;
    return look();
  } finally {
    undo.forEach((each) => each());
    window.scrollTo({ left: scrollX, top: scrollY, behavior: "instant" });
  }
}

/** The styles with which an element leaves its place to others, or shows all that is in it. */
function unfolded(element: HTMLElement): string {
  if (isLeftOut(element)) return "display: none !important;";
  if (element.matches("header")) return `margin-bottom: ${MARGIN / 2}px;`; // the help below it is left out
  const { overflowX, overflowY, textOverflow, position } = getComputedStyle(element);
  const scrolls = [overflowX, overflowY].some(
    (overflow) => overflow === "auto" || overflow === "scroll",
  );
  const whole =
    scrolls || textOverflow === "ellipsis"
      ? "overflow: visible; max-width: none; max-height: none;"
      : "";
  return whole + (position === "sticky" ? "position: static;" : "");
}

/** A function that gives an element its styles and its scrolling back. */
function restorer(element: HTMLElement): () => void {
  const { scrollLeft, scrollTop } = element;
  const styles = element.style.cssText;
  return () => {
    element.style.cssText = styles;
    if (scrollLeft || scrollTop)
      element.scrollTo({ left: scrollLeft, top: scrollTop, behavior: "instant" });
  };
}

/** Replace what XML 1.0 does not allow: control characters and halves of surrogate pairs. */
export function legal(text: string): string {
  return text.replaceAll(
    /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu,
    "\u{FFFD}",
  );
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
  return isClear(colour) ? background(element.parentElement) : readable(colour);
}

function isClear(colour: string): boolean {
  return colour === "" || colour === "transparent" || /^rgba\(.*, 0\)$/.test(colour);
}

/** A colour that every program reads: mixed colours come as "color(srgb 0.9 0.5 0)". */
export function readable(colour: string): string {
  return colour.replaceAll(/color\(srgb ([^)]*)\)/g, (_, parts: string) => {
    const [red, green, blue, alpha] = parts.split(/[\s/]+/).map(Number);
    return `rgba(${[red, green, blue].map((part) => Math.round(255 * part!)).join(", ")}, ${alpha ?? 1})`;
  });
}

/** Everything that an element draws, from the back to the front. */
function* piecesOf(element: HTMLElement): Generator<Piece> {
  for (const node of shownNodes(element)) {
    const parent = node instanceof Text ? node.parentElement! : node;
    for (const piece of drawnAs(node)) {
      const { width, height } = piece.box;
      if (width > 0 && height > 0 && isInSight(piece.box, parent, element)) yield piece;
    }
  }
}

function drawnAs(node: Element | Text): Iterable<Piece> {
  if (node instanceof Text) return lines(node);
  if (isPicture(node)) return [picture(node)];
  if (node instanceof HTMLInputElement) return ticked(node);
  return [...ground(node), ...edges(node), ...rings(node)];
}

/** Nodes below an element in their order, without controls and what is hidden. */
function* shownNodes(parent: Element): Generator<Element | Text> {
  for (const node of parent.childNodes) {
    if (node instanceof Text) {
      if (node.data.trim()) yield node;
    } else if (node instanceof Element && !isLeftOut(node)) {
      yield node;
      if (!isPicture(node)) yield* shownNodes(node);
    }
  }
}

function isLeftOut(element: Element): boolean {
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility === "hidden") return true;
  return element.matches(CONTROLS) && !element.matches(SHOWN);
}

type Picture = HTMLCanvasElement | HTMLImageElement | SVGSVGElement;

function isPicture(node: Node): node is Picture {
  return (
    node instanceof HTMLCanvasElement ||
    node instanceof HTMLImageElement ||
    node instanceof SVGSVGElement
  );
}

function picture(child: Picture): Piece {
  const box = child.getBoundingClientRect();
  if (box.width === 0 || box.height === 0) return { drawn: make("g", {}), box };
  if (child instanceof SVGSVGElement) return placed(copied(child), box);
  return placed(make("image", { href: pixels(child), style: "image-rendering:pixelated" }), box);
}

function placed(drawn: SVGElement, box: DOMRect): Piece {
  for (const side of ["x", "y", "width", "height"] as const)
    drawn.setAttribute(side, String(box[side]));
  return { drawn, box };
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
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "opacity",
  "display",
  "visibility",
  "overflow",
  "paint-order",
  "text-anchor",
  "dominant-baseline",
];
const FONT = [
  "font-size",
  "font-family",
  "font-weight",
  "font-style",
  "letter-spacing",
  "font-variant-numeric",
];

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
  return values
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}:${readable(value)}`)
    .join(";");
}

/** The background of an element, such as a swatch of a legend. */
function* ground(child: Element): Generator<Piece> {
  const { backgroundColor } = getComputedStyle(child);
  const box = child.getBoundingClientRect();
  if (!isClear(backgroundColor))
    yield placed(make("rect", { fill: readable(backgroundColor), rx: radius(child, box) }), box);
}

function radius(child: Element, { width, height }: DOMRect): number {
  return Math.min(
    parseFloat(getComputedStyle(child).borderTopLeftRadius) || 0,
    width / 2,
    height / 2,
  );
}

/** The borders of an element, such as the rules of a table. What is a button on the page has none. */
function* edges(child: Element): Generator<Piece> {
  if (child instanceof HTMLButtonElement) return;
  const style = getComputedStyle(child);
  const box = child.getBoundingClientRect();
  for (const side of ["top", "right", "bottom", "left"] as const) {
    const width = parseFloat(style.getPropertyValue(`border-${side}-width`));
    const colour = style.getPropertyValue(`border-${side}-color`);
    const shown =
      width > 0 && !["none", "hidden"].includes(style.getPropertyValue(`border-${side}-style`));
    if (shown && !isClear(colour))
      yield placed(make("rect", { fill: readable(colour) }), edge(box, side, width));
  }
}

/** The strip along one side within a box. */
export function edge(
  { x, y, width, height, right, bottom }: DOMRect,
  side: "top" | "right" | "bottom" | "left",
  thickness: number,
): DOMRect {
  if (side === "top") return new DOMRect(x, y, width, thickness);
  if (side === "bottom") return new DOMRect(x, bottom - thickness, width, thickness);
  return new DOMRect(side === "left" ? x : right - thickness, y, thickness, height);
}

/** The frame of a marked element: a shadow that is spread evenly and sharp. */
function* rings(child: Element): Generator<Piece> {
  const ring = ringOf(getComputedStyle(child).boxShadow);
  if (!ring) return;
  const { x, y, width, height } = child.getBoundingClientRect();
  const half = ring.width / 2;
  const middle = new DOMRect(x - half, y - half, width + ring.width, height + ring.width);
  const rx = radius(child, middle) + half;
  const { drawn } = placed(
    make("rect", { fill: "none", stroke: ring.colour, "stroke-width": ring.width, rx }),
    middle,
  );
  yield {
    drawn,
    box: new DOMRect(
      x - ring.width,
      y - ring.width,
      width + 2 * ring.width,
      height + 2 * ring.width,
    ),
  };
}

/** The colour and the width of a shadow "rgb(213, 94, 0) 0px 0px 0px 2px"; null if it is another kind. */
export function ringOf(shadow: string): { colour: string; width: number } | null {
  const found = /^(\w+\([^)]*\)) 0px 0px 0px ([\d.]+)px$/.exec(shadow);
  return found && { colour: readable(found[1]!), width: +found[2]! };
}

/** A tick in place of a box that is checked. */
function* ticked(input: HTMLInputElement): Generator<Piece> {
  if (input.checked) yield written("✓", input, input.getBoundingClientRect());
}

/** One `<text>` for each line of a text. */
function lines(node: Text): Piece[] {
  const parent = node.parentElement!;
  if (getComputedStyle(parent).writingMode.startsWith("vertical")) return [upright(node, parent)];
  return gathered(partsOf(node)).map(({ text, box }) => written(text, parent, box));
}

/** Text at its exact place, with its spaces: the texts around it follow without a gap. */
function written(text: string, parent: Element, box: DOMRect): Piece {
  const { color, fontSize } = getComputedStyle(parent);
  const y = box.y + box.height / 2 + 0.36 * parseFloat(fontSize); // about the baseline
  const drawn = make("text", {
    x: box.x,
    y,
    style: `${styles(parent, FONT)};white-space:pre;fill:${readable(color)}`,
  });
  drawn.textContent = text;
  return { drawn, box };
}

/** Vertical text, which reads upwards where the page turns it around. */
function upright(node: Text, parent: Element): Piece {
  const range = document.createRange();
  range.selectNodeContents(node);
  const box = range.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const { drawn } = written(node.data.trim(), parent, new DOMRect(x, y, 0, 0));
  const turn = getComputedStyle(parent).transform.startsWith("matrix(-1") ? -90 : 90;
  drawn.setAttribute("transform", `rotate(${turn} ${x} ${y})`);
  drawn.setAttribute("text-anchor", "middle");
  return { drawn, box };
}

/** Whether most of a box is within everything that clips it, up to `element`. */
function isInSight(box: DOMRect, child: Element, element: HTMLElement): boolean {
  for (
    let parent = child.parentElement;
    parent && parent !== element;
    parent = parent.parentElement
  ) {
    if (
      getComputedStyle(parent).overflow !== "visible" &&
      overlap(box, parent.getBoundingClientRect()) < 0.5
    )
      return false;
  }
  return true;
}

/** The share of a box that lies within another. */
export function overlap(box: DOMRect, frame: DOMRect): number {
  const width = Math.min(box.right, frame.right) - Math.max(box.left, frame.left);
  const height = Math.min(box.bottom, frame.bottom) - Math.max(box.top, frame.top);
  return (Math.max(width, 0) * Math.max(height, 0)) / (box.width * box.height);
}
