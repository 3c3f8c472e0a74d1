/** Pointers on a plot: drag to pan, two fingers to zoom, a drawn line, hovering, a click. */
import type { Place } from "./camera";
import { extended } from "./lasso";

export interface Actions {
  pan: (by: Place) => void;
  zoom: (factor: number, at: Place) => void;
  hover: (at: Place | null) => void;
  click: (at: Place) => void;
  /** A line is being drawn, and has been drawn. */
  draw: (path: readonly Place[]) => void;
  drawn: (path: readonly Place[]) => void;
}

/** A pointer that moves less is clicking, not dragging. */
const STILL = 4;

export class Gestures {
  /** Whether a drag draws a line even without the shift key. */
  lasso = false;
  private readonly pointers = new Map<number, Place>();
  private path: readonly Place[] | null = null;
  private travelled = 0;

  constructor(public actions: Actions) {}

  /** Whether the pointer holds the content or draws. */
  get busy(): boolean {
    return this.pointers.size > 0;
  }

  down(id: number, at: Place, shift: boolean): void {
    this.pointers.set(id, at);
    this.travelled = this.pointers.size > 1 ? STILL : 0;
    this.path = this.pointers.size === 1 && (this.lasso || shift) ? [at] : null;
    this.actions.hover(null);
  }

  move(id: number, at: Place): void {
    const before = this.pointers.get(id);
    if (!before) return this.actions.hover(at);
    const other = [...this.pointers].find(([key]) => key !== id)?.[1];
    this.pointers.set(id, at);
    this.travelled += distance(before, at);
    if (other) this.pinch(before, at, other);
    else if (this.path) this.actions.draw((this.path = extended(this.path, at)));
    else if (this.travelled >= STILL) this.actions.pan([at[0] - before[0], at[1] - before[1]]);
  }

  up(id: number, at: Place): void {
    if (!this.pointers.delete(id)) return;
    const { path } = this;
    this.path = null;
    if (this.travelled < STILL && this.pointers.size === 0) this.actions.click(at);
    else if (path) this.actions.drawn(path);
  }

  cancel(id: number): void {
    this.pointers.delete(id);
    if (this.path) this.actions.draw([]);
    this.path = null;
  }

  private pinch(before: Place, at: Place, other: Place): void {
    const factor = distance(at, other) / Math.max(distance(before, other), 1);
    this.actions.pan([(at[0] - before[0]) / 2, (at[1] - before[1]) / 2]);
    if (factor > 0) this.actions.zoom(factor, [(at[0] + other[0]) / 2, (at[1] + other[1]) / 2]);
  }
}

function distance(a: Place, b: Place): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}
