/** Colours of images, differences and points. */
import type { ColourMap } from "./bundle";

export type Rgb = [number, number, number];

/** Blue, white, red: for differences, and for channels around a middle. */
export function diverging(share: number): Rgb {
  const t = Math.min(Math.max(share, 0), 1);
  const [a, b, s]: [Rgb, Rgb, number] =
    t < 0.5 ? [[5, 84, 140], [250, 250, 250], t * 2] : [[250, 250, 250], [190, 60, 10], t * 2 - 1];
  return [0, 1, 2].map((n) => a[n]! + (b[n]! - a[n]!) * s) as Rgb;
}

/** Cells of a matrix on light and dark pages: nothing, and all. */
const CELLS: Record<"light" | "dark", [Rgb, Rgb]> = {
  light: [
    [243, 243, 240],
    [0, 114, 178],
  ],
  dark: [
    [38, 43, 49],
    [86, 172, 232],
  ],
};

/** The colour of a cell at a share from 0 to 1. */
export function cellColour(share: number, theme: "light" | "dark"): Rgb {
  const [nothing, all] = CELLS[theme];
  return nothing.map((part, band) => Math.round(part + share * (all[band]! - part))) as Rgb;
}

/** Black or white, whichever is easier to read on a colour: one of them has a contrast of 4.58. */
export function inkOn(colour: Rgb): Rgb {
  return contrast(colour, [255, 255, 255]) > contrast(colour, [0, 0, 0])
    ? [255, 255, 255]
    : [0, 0, 0];
}

/** The ratio of contrast of two colours by WCAG 2. */
export function contrast(a: Rgb, b: Rgb): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light! + 0.05) / (dark! + 0.05);
}

function luminance(colour: Rgb): number {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

/** Write the pixels of an image (channels, height, width) as RGBA. */
export function paint(
  values: Float32Array,
  pixels: number,
  map: ColourMap,
  rgba: Uint8ClampedArray,
): void {
  const channels = map.low.length;
  const shares = new Array<number>(channels);
  for (let pixel = 0; pixel < pixels; pixel++) {
    for (let channel = 0; channel < channels; channel++) {
      const from = map.low[channel]!;
      const share = (values[channel * pixels + pixel]! - from) / (map.high[channel]! - from);
      shares[channel] = Math.min(Math.max(share, 0), 1);
    }
    const colour = map.diverging ? between(map.colours, shares[0]!) : mixed(map.colours, shares);
    for (let band = 0; band < 3; band++) rgba[pixel * 4 + band] = 255 * colour[band]!;
    rgba[pixel * 4 + 3] = map.alpha ? 255 * shares[channels - 1]! : 255;
  }
}

function mixed(colours: readonly Rgb[], shares: readonly number[]): Rgb {
  const sum: Rgb = [0, 0, 0];
  colours.forEach((colour, channel) => {
    for (let band = 0; band < 3; band++) sum[band as 0 | 1 | 2] += shares[channel]! * colour[band]!;
  });
  return sum;
}

/** The colour at a share of the way from the first over the second to the third. */
function between(colours: readonly Rgb[], share: number): Rgb {
  const [from, to, s] =
    share < 0.5 ? [colours[0]!, colours[1]!, share * 2] : [colours[1]!, colours[2]!, share * 2 - 1];
  return from.map((value, band) => value + (to[band]! - value) * s) as Rgb;
}

/** From blue over grey to orange: for curves, on light and dark pages. */
export function scoreColour(share: number): string {
  const [from, to] = [
    [26, 134, 200],
    [224, 112, 34],
  ];
  const mix = from!.map((value, band) => Math.round(value + (to![band]! - value) * share));
  return `rgb(${mix.join(" ")})`;
}
