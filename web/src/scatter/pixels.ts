/**
 * Draws points without a graphics card, pixel by pixel: as fast as panning needs, and several times
 * faster than WebGL by software, which spends most of its time on setting up each point.
 */
import type { Box, Size } from "./camera";
import { SIXTEENTHS, type Look, type Points } from "./renderer";

/** Discs are drawn at quarters of a pixel, so that they move smoothly. */
const PHASES = 4;
/** Pixels around the picture in which discs may end. The largest disc is 16 CSS pixels wide. */
const BORDER = 16;

/** The pixels of a picture of the points, RGBA as in ImageData. */
export function drawPoints(
  points: Points,
  look: Look,
  box: Box,
  size: Size,
  ratio: number,
): Uint8ClampedArray<ArrayBuffer> {
  const border = Math.ceil(BORDER * ratio);
  const wide = size.width + 2 * border;
  const high = size.height + 2 * border;
  const pixels = new Uint32Array(wide * high);
  const [perX, perY] = [size.width / (box.x[1] - box.x[0]), size.height / (box.y[1] - box.y[0])];
  const discs = new Discs(ratio / SIXTEENTHS, wide);
  const { rgba, sizes, order } = look;
  for (let k = 0; k < order.length; k++) {
    const n = order[k]!;
    const disc = discs.of(sizes[n]!);
    const x = (points.x[n]! - box.x[0]) * perX + border - disc.radius;
    const y = (box.y[1] - points.y[n]!) * perY + border - disc.radius;
    if (x >= 0 && y >= 0 && x < wide - disc.side && y < high - disc.side)
      stamp(pixels, wide, x, y, disc, rgba, 4 * n);
  }
  return cropped(pixels, wide, border, size);
}

/** The pixels that a disc covers: their distance from its corner, and how much of each, to 255. */
interface Mask {
  offsets: Int32Array;
  covers: Uint8Array;
}

interface Disc {
  radius: number;
  side: number;
  /** For each phase down and across. */
  masks: Mask[];
}

/** Masks of discs by their size, made when they are first needed. */
class Discs {
  private readonly made: (Disc | undefined)[] = [];

  constructor(
    private readonly scale: number,
    private readonly wide: number,
  ) {}

  of(size: number): Disc {
    return (this.made[size] ??= disc(Math.max(size * this.scale, 1) / 2, this.wide));
  }
}

function disc(radius: number, wide: number): Disc {
  const side = Math.ceil(2 * radius) + 2;
  const masks = Array.from({ length: PHASES * PHASES }, (_, phase) => {
    const x = radius + ((phase % PHASES) + 0.5) / PHASES;
    const y = radius + (Math.floor(phase / PHASES) + 0.5) / PHASES;
    return mask(x, y, radius, side, wide);
  });
  return { radius, side, masks };
}

function mask(x: number, y: number, radius: number, side: number, wide: number): Mask {
  const covered = Array.from({ length: side * side }, (_, n) => {
    const [column, row] = [n % side, Math.floor(n / side)];
    const away = Math.hypot(column + 0.5 - x, row + 0.5 - y);
    return {
      offset: row * wide + column,
      cover: Math.round(255 * Math.min(Math.max(radius - away + 0.5, 0), 1)),
    };
  }).filter(({ cover }) => cover > 0);
  return {
    offsets: Int32Array.from(covered, ({ offset }) => offset),
    covers: Uint8Array.from(covered, ({ cover }) => cover),
  };
}

const PAIR = 0x00ff00ff;
const HALF = 0x00800080;

/**
 * Blend a disc over premultiplied pixels, 0xAABBGGRR. This runs for every point of every frame, so
 * two channels are blended at a time.
 */
function stamp(
  pixels: Uint32Array,
  wide: number,
  x: number,
  y: number,
  disc: Disc,
  rgba: Uint8Array,
  at: number,
): void {
  const left = x | 0;
  const top = y | 0;
  const { offsets, covers } =
    disc.masks[(((y - top) * PHASES) | 0) * PHASES + (((x - left) * PHASES) | 0)]!;
  const corner = top * wide + left;
  const blueRed = (rgba[at + 2]! << 16) | rgba[at]!;
  const alphaGreen = (255 << 16) | rgba[at + 1]!;
  const opacity = rgba[at + 3]! * (256 / (255 * 255));
  for (let k = 0; k < offsets.length; k++) {
    const over = (covers[k]! * opacity + 0.5) | 0;
    const under = 256 - over;
    const pixel = corner + offsets[k]!;
    const before = pixels[pixel]!;
    const low = (Math.imul(blueRed, over) + Math.imul(before & PAIR, under) + HALF) >>> 8;
    const high = Math.imul(alphaGreen, over) + Math.imul((before >>> 8) & PAIR, under) + HALF;
    pixels[pixel] = (low & PAIR) | (high & ~PAIR);
  }
}

/** The picture without its border, and with colours that are not premultiplied. */
function cropped(
  from: Uint32Array,
  wide: number,
  border: number,
  { width, height }: Size,
): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(4 * width * height);
  for (let row = 0, to = 0; row < height; row++) {
    const start = (row + border) * wide + border;
    for (let column = 0; column < width; column++, to += 4) {
      const pixel = from[start + column]!;
      if (pixel === 0) continue;
      const alpha = pixel >>> 24;
      const full = 255 / alpha;
      pixels[to] = (pixel & 255) * full;
      pixels[to + 1] = ((pixel >>> 8) & 255) * full;
      pixels[to + 2] = ((pixel >>> 16) & 255) * full;
      pixels[to + 3] = alpha;
    }
  }
  return pixels;
}
