/** Where the lines of a text lie on the page. */

/** A part of a text and where it lies. */
export interface Part {
  text: string;
  box: DOMRect;
}

/** Words and the spaces between them; the letters of a word that goes over two lines. */
export function* partsOf(node: Text): Generator<Part> {
  const range = document.createRange();
  for (const { 0: text, index } of node.data.matchAll(/\s+|\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + text.length);
    if (text.trim() && range.getClientRects().length > 1) yield* lettersOf(node, index, text);
    else yield { text: text.trim() || " ", box: range.getBoundingClientRect() };
  }
}

function* lettersOf(node: Text, start: number, word: string): Generator<Part> {
  const range = document.createRange();
  let at = start;
  for (const text of word) {
    range.setStart(node, at);
    range.setEnd(node, (at += text.length));
    yield { text, box: range.getBoundingClientRect() };
  }
}

/** Lines of the parts of a text; spaces at which the page breaks a line have no width. */
export function gathered(parts: Iterable<Part>): Part[] {
  const found: Part[] = [];
  for (const { text, box } of parts) {
    const last = found.at(-1);
    if (box.width === 0) continue;
    if (!last || Math.abs(last.box.y - box.y) >= 2) found.push({ text, box });
    else Object.assign(last, { text: last.text + text, box: joined(last.box, box) });
  }
  return found;
}

function joined({ x, y, height }: DOMRect, { right }: DOMRect): DOMRect {
  return new DOMRect(x, y, right - x, height);
}
