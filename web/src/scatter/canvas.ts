/** Draws points where there is no WebGL2: squares, blended pixel by pixel. */
import { toScreen, type Box, type Size } from "./camera";
import { resize, SIXTEENTHS, type Look, type Points, type Renderer } from "./renderer";

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
    if (!this.points || !this.look || this.canvas.width * this.canvas.height === 0) return;
    const image = new ImageData(this.canvas.width, this.canvas.height);
    for (const n of this.look.order) {
      const [x, y] = toScreen(box, image, [this.points.x[n]!, this.points.y[n]!]);
      square(image, x, y, (this.look.sizes[n]! / SIXTEENTHS) * ratio, this.look.rgba, n * 4);
    }
    this.context.putImageData(image, 0, 0);
  }

  dispose(): void {
    this.points = this.look = null;
  }
}

/** Blend a square of a colour over the pixels of an image. */
function square(image: ImageData, x: number, y: number, side: number, rgba: Uint8Array, at: number): void {
  const [left, right] = edges(x, side, image.width);
  const [top, bottom] = edges(y, side, image.height);
  for (let row = top; row < bottom; row++) {
    for (let column = left; column < right; column++) {
      blend(image.data, (row * image.width + column) * 4, rgba, at);
    }
  }
}

function edges(middle: number, side: number, end: number): [number, number] {
  const first = Math.round(middle - side / 2);
  return [Math.max(first, 0), Math.min(first + Math.max(Math.round(side), 1), end)];
}

/** "Source over destination" of colours that are not premultiplied. */
export function blend(under: Uint8ClampedArray, pixel: number, over: Uint8Array, at: number): void {
  const alpha = over[at + 3]! / 255;
  const below = (under[pixel + 3]! / 255) * (1 - alpha);
  const total = alpha + below;
  if (total === 0) return;
  for (let channel = 0; channel < 3; channel++) {
    under[pixel + channel] = (over[at + channel]! * alpha + under[pixel + channel]! * below) / total;
  }
  under[pixel + 3] = total * 255;
}
