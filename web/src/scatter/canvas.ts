/**
 * Draws points without a graphics card, pixel by pixel: as fast as panning needs, and several times
 * faster than WebGL by software, which spends most of its time on setting up each point.
 */
import type { Box, Size } from "./camera";
import { resize, SIXTEENTHS, type Look, type Points, type Renderer } from "./renderer";

/** Discs are drawn at quarters of a pixel, so that they move smoothly. */
const PHASES = 4;
/** Pixels around the picture in which discs may end. The largest disc is 16 CSS pixels wide. */
const BORDER = 16;

export class CanvasRenderer implements Renderer {
  private points: Points | null = null;
  private look: Look | null = null;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly context: CanvasRenderingContext2D,
  ) {}

  place(points: Points): void {
    this.points = points;
  }

  style(look: Look): void {
    this.look = look;
  }

  draw(box: Box, size: Size, ratio: number): void {
    resize(this.canvas, size, ratio);
    const { width, height } = this.canvas;
    if (!this.points || !this.look || width * height === 0) return;
    const pixels = drawPoints(this.points, this.look, box, { width, height }, ratio);
    this.context.putImageData(new ImageData(pixels, width, height), 0, 0);
  }

  dispose(): void {
    this.points = this.look = null;
  }
}

/** The pixels of a picture of the points, RGBA as in ImageData. */
export function drawPoints(points: Points, look: Look, box: Box, size: Size, ratio: number): Uint8ClampedArray<ArrayBuffer> {
  const border = Math.ceil(BORDER * ratio);
  const wide = size.width + 2 * border;
  const high = size.height + 2 * border;
  const bytes = new Uint8Array(4 * wide * high);
  const [perX, perY] = [size.width / (box.x[1] - box.x[0]), size.height / (box.y[1] - box.y[0])];
  const discs = new Discs(ratio / SIXTEENTHS);
  for (const n of look.order) {
    const disc = discs.of(look.sizes[n]!);
    const x = (points.x[n]! - box.x[0]) * perX + border - disc.radius;
    const y = (box.y[1] - points.y[n]!) * perY + border - disc.radius;
    if (x >= 0 && y >= 0 && x < wide - disc.side && y < high - disc.side) stamp(bytes, wide, x, y, disc, look.rgba, 4 * n);
  }
  return cropped(bytes, wide, border, size);
}

interface Disc {
  radius: number;
  /** Pixels of a side of the masks. */
  side: number;
  /** How much of each pixel the disc covers, 0 to 255, for each phase down and across. */
  masks: Uint8Array[];
}

/** Masks of discs by their size, made when they are first needed. */
class Discs {
  private readonly made: (Disc | undefined)[] = [];

  constructor(private readonly scale: number) {}

  of(size: number): Disc {
    return (this.made[size] ??= disc(Math.max(size * this.scale, 1) / 2));
  }
}

function disc(radius: number): Disc {
  const side = Math.ceil(2 * radius) + 2;
  const masks = Array.from({ length: PHASES * PHASES }, (_, phase) => {
    const x = radius + ((phase % PHASES) + 0.5) / PHASES;
    const y = radius + (Math.floor(phase / PHASES) + 0.5) / PHASES;
    return Uint8Array.from({ length: side * side }, (_, n) => {
      const away = Math.hypot((n % side) + 0.5 - x, Math.floor(n / side) + 0.5 - y);
      return 255 * Math.min(Math.max(radius - away + 0.5, 0), 1);
    });
  });
  return { radius, side, masks };
}

/** Blend a disc over premultiplied pixels. This runs for every point of every frame. */
function stamp(bytes: Uint8Array, wide: number, x: number, y: number, disc: Disc, rgba: Uint8Array, colour: number): void {
  const [left, top] = [x | 0, y | 0];
  const mask = disc.masks[(((y - top) * PHASES) | 0) * PHASES + (((x - left) * PHASES) | 0)]!;
  const side = disc.side;
  const r = rgba[colour]!;
  const g = rgba[colour + 1]!;
  const b = rgba[colour + 2]!;
  const alpha = rgba[colour + 3]!;
  for (let row = 0, k = 0; row < side; row++) {
    let at = 4 * ((top + row) * wide + left);
    for (let column = 0; column < side; column++, k++, at += 4) {
      const cover = mask[k]!;
      if (cover === 0) continue;
      const over = share(alpha * cover);
      const under = 255 - over;
      bytes[at] = share(r * over + bytes[at]! * under);
      bytes[at + 1] = share(g * over + bytes[at + 1]! * under);
      bytes[at + 2] = share(b * over + bytes[at + 2]! * under);
      bytes[at + 3] = share(255 * over + bytes[at + 3]! * under);
    }
  }
}

/** A number divided by 255 and rounded, exact up to 255 * 255. */
function share(product: number): number {
  return ((product + 128) * 257) >>> 16;
}

/** The picture without its border, and with colours that are not premultiplied. */
function cropped(bytes: Uint8Array, wide: number, border: number, { width, height }: Size): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(4 * width * height);
  for (let row = 0, to = 0; row < height; row++) {
    let from = 4 * ((row + border) * wide + border);
    for (let column = 0; column < width; column++, from += 4, to += 4) {
      const alpha = bytes[from + 3]!;
      if (alpha === 0) continue;
      const full = 255 / alpha;
      pixels[to] = bytes[from]! * full;
      pixels[to + 1] = bytes[from + 1]! * full;
      pixels[to + 2] = bytes[from + 2]! * full;
      pixels[to + 3] = alpha;
    }
  }
  return pixels;
}
