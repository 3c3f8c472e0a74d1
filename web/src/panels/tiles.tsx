/** Parts of traversals and grids: images to click, and the toggle "What changes?". */
import type { ComponentChildren } from "preact";
import type { Model } from "../model";
import { change, view } from "../state";
import "./tiles.css";

interface TileProps {
  current: boolean;
  /** Whether the Tab key comes to it; arrow keys go on to the others. */
  first: boolean;
  label: string;
  caption?: string;
  onChoose: () => void;
  children: ComponentChildren;
}

/** A small picture that sets the sliders; the current one has a frame. */
export function Tile({ current, first, label, caption, onChoose, children }: TileProps) {
  return (
    <button
      type="button"
      class="tile in-export"
      tabIndex={first ? 0 : -1}
      aria-label={label}
      title={label}
      aria-current={current ? "true" : undefined}
      onClick={onChoose}
    >
      {children}
      {caption !== undefined && <span class="caption">{caption}</span>}
    </button>
  );
}

/** Move the focus between tiles that lie in rows of some number of columns, by arrow keys. */
export function moveFocus(event: KeyboardEvent, columns: number): void {
  const tiles = Array.from((event.currentTarget as Element).querySelectorAll<HTMLElement>(".tile"));
  const at = tiles.indexOf(document.activeElement as HTMLElement);
  const next = neighbour(event.key, at, columns, tiles.length);
  if (next === null) return;
  event.preventDefault();
  tiles[next]!.focus();
}

/** The tile that an arrow key goes to; null if there is none. */
export function neighbour(key: string, at: number, columns: number, count: number): number | null {
  const column = at % columns;
  if (key === "ArrowLeft" && column > 0) return at - 1;
  if (key === "ArrowRight" && column < columns - 1 && at + 1 < count) return at + 1;
  if (key === "ArrowUp" && at >= columns) return at - columns;
  if (key === "ArrowDown" && at + columns < count) return at + columns;
  return null;
}

export function DifferenceToggle({ model }: { model: Model }) {
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
      {difference && model.data.observation.kind === "image" && (
        <span class="legend">Red is brighter than now, blue is darker, white is no change.</span>
      )}
    </>
  );
}
