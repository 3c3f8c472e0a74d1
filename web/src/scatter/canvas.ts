/** Draws points without a graphics card: pixel by pixel, and many of them, while they move, from a snapshot. */
import type { Box, Size } from "./camera";
import { drawPoints } from "./pixels";
import { resize, type Look, type Points, type Renderer } from "./renderer";
import { around, frameOf, serves, type Frame, type Snapshot } from "./snapshot";

/** Points that are drawn again in every frame; more would not follow the hand. */
const FEW = 10_000;
/** Milliseconds without motion after which points are drawn again where they are now. */
const REST = 80;

export class CanvasRenderer implements Renderer {
  private points: Points | null = null;
  private look: Look | null = null;
  private snapshot: Snapshot | null = null;
  private timer = 0;
  /** The snapshot's pixels. */
  private readonly taken = softwareContext(document.createElement("canvas"))!;

  constructor(private readonly context: CanvasRenderingContext2D) {}

  place(points: Points): void {
    this.points = points;
    this.snapshot = null;
  }

  style(look: Look): void {
    this.look = look;
    this.snapshot = null;
  }

  draw(box: Box, size: Size, ratio: number): void {
    window.clearTimeout(this.timer);
    const { canvas } = this.context;
    if (resize(canvas, size, ratio)) this.snapshot = null;
    const { points, look } = this;
    const pixels = { width: canvas.width, height: canvas.height };
    if (!points || !look || pixels.width * pixels.height === 0) return;
    const few = look.order.length <= FEW;
    if (few || !this.snapshot || !serves(this.snapshot, points.whole, box)) {
      this.snapshot = this.take(points, look, around(box, pixels, few ? 0 : undefined), ratio);
    }
    this.show(frameOf(this.snapshot, box, pixels));
    if (this.snapshot.seen === box) return;
    this.timer = window.setTimeout(() => {
      this.snapshot = null;
      this.draw(box, size, ratio);
    }, REST);
  }

  dispose(): void {
    window.clearTimeout(this.timer);
    this.points = this.look = this.snapshot = null;
  }

  private take(points: Points, look: Look, snapshot: Snapshot, ratio: number): Snapshot {
    const { width, height } = Object.assign(this.taken.canvas, snapshot.size);
    const pixels = drawPoints(points, look, snapshot.box, snapshot.size, ratio);
    this.taken.putImageData(new ImageData(pixels, width, height), 0, 0);
    return snapshot;
  }

  private show({ x, y, width, height }: Frame): void {
    this.context.globalCompositeOperation = "copy";
    this.context.drawImage(this.taken.canvas, x, y, width, height);
  }
}

/** A context whose pixels stay in main memory, where they are written. */
export function softwareContext(canvas: HTMLCanvasElement): CanvasRenderingContext2D | null {
  return canvas.getContext("2d", { willReadFrequently: true });
}
