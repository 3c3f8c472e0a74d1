/** Parts of traversals and grids: images to click, and the toggle "What changes?". */
import type { ComponentChildren } from "preact";
import type { ColourMap } from "../bundle";
import type { Model } from "../model";
import { change, view } from "../state";
import { colourChannels } from "../ui/observation";
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

interface ToggleProps {
  model: Model;
  /** When what differences are taken from is decoded: "now". */
  base: string;
}

export function DifferenceToggle({ model, base }: ToggleProps) {
  const { difference } = view.value;
  const seen = model.data.observation;
  return (
    <>
      <button
        type="button"
        aria-pressed={difference}
        title={`Show the difference from what is decoded ${base}`}
        onClick={() => change({ difference: !difference })}
      >
        What changes?
      </button>
      {difference && seen.kind === "image" && (
        <span class="legend">{differenceLegend(seen.colours, base)}</span>
      )}
    </>
  );
}

/** What the colours of differences mean. */
export function differenceLegend(colours: ColourMap, base: string): string {
  if (colours.diverging) return `Red is higher than ${base}, blue is lower, white is no change.`;
  if (colourChannels(colours) === 1)
    return `Red is brighter than ${base}, blue is darker, white is no change.`;
  const opacity = colours.alpha ? " Opacity is left out." : "";
  return `A colour is brighter where there is more of it than ${base}, darker where there is less; grey is no change.${opacity}`;
}
