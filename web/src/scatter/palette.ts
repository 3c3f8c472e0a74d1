/** Colours of points: one for each class, or a scale from low to high. */
import type { Rgb } from "../colours";

/** Okabe and Ito's palette without black, which the dark page would hide; yellow comes last. */
const OKABE_ITO: Rgb[] = [
  [0, 114, 178],
  [230, 159, 0],
  [0, 158, 115],
  [204, 121, 167],
  [86, 180, 233],
  [213, 94, 0],
  [221, 204, 50],
];

/** Rows without a label. */
export const MISSING: Rgb = [140, 140, 140];

/** How many classes have a colour of their own; then the colours repeat. */
export const DISTINCT = 3 * OKABE_ITO.length;

/** The colour of a class: the palette, then darker, then lighter shades of it. */
export function classColour(n: number): Rgb {
  const base = OKABE_ITO[n % OKABE_ITO.length]!;
  const shade = Math.floor(n / OKABE_ITO.length) % 3;
  if (shade === 0) return base;
  return base.map((part) =>
    Math.round(shade === 1 ? part * 0.55 : part + (255 - part) * 0.55),
  ) as Rgb;
}

/** The map "viridis" of matplotlib, at ten equally spaced places. */
const VIRIDIS: Rgb[] = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 74, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [109, 205, 89],
  [180, 222, 44],
  [253, 231, 37],
];

/** Where the scale starts on a dark page, which would hide its first colours. */
const DARK_START = 0.4;

/** The colour of a share from 0 to 1; beyond, that of the end. */
export function scaleColour(share: number, dark = false): Rgb {
  const within = Math.min(Math.max(share, 0), 1);
  const place = (dark ? DARK_START + (1 - DARK_START) * within : within) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const [a, b] = [VIRIDIS[low]!, VIRIDIS[low + 1]!];
  return [0, 1, 2].map((n) => Math.round(a[n]! + (b[n]! - a[n]!) * (place - low))) as Rgb;
}

export function css([r, g, b]: Rgb): string {
  return `rgb(${r} ${g} ${b})`;
}
