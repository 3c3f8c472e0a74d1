/** Parts of traversals and grids: images to click, and the toggle "What changes?". */
import type { ComponentChildren } from "preact";
import { change, view } from "../state";
import "./tiles.css";

interface TileProps {
  current: boolean;
  label: string;
  caption?: string;
  onChoose: () => void;
  children: ComponentChildren;
}

/** A small picture that sets the sliders; the current one has a frame. */
export function Tile({ current, label, caption, onChoose, children }: TileProps) {
  return (
    <button type="button" class="tile" aria-label={label} aria-current={current ? "true" : undefined} onClick={onChoose}>
      {children}
      {caption !== undefined && <span class="caption">{caption}</span>}
    </button>
  );
}

export function DifferenceToggle() {
  const { difference } = view.value;
  return (
    <>
      <button
        type="button"
        aria-pressed={difference}
        title="Show the difference from what is decoded now"
        onClick={() => change({ difference: !difference })}
      >
        What changes?
      </button>
      {difference && <span class="legend">Red is more than now, blue is less, white is no change.</span>}
    </>
  );
}
