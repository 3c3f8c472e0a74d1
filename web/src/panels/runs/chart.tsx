/** Parts of charts: the width of the page, axes, marks of categories, a legend. */
import {
  symbol,
  symbolCircle,
  symbolCross,
  symbolDiamond,
  symbolSquare,
  symbolTriangle,
} from "d3-shape";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { change } from "../../state";
import { capitalised, shortened } from "../../text";
import type { Option } from "../../ui/choice";
import type { Axis } from "./axis";
import { titleOf, type Column } from "./columns";
import { shown } from "./shown";

/** The width of an element in pixels, as it changes. */
export function useWidth(): [preact.RefObject<HTMLDivElement | null>, number] {
  const element = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(640);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(
      ([entry]) => entry && entry.contentRect.width > 0 && setWidth(entry.contentRect.width),
    );
    watcher.observe(element.current!);
    return () => watcher.disconnect();
  }, []);
  return [element, width];
}

/** How a category is drawn: colours repeat with another symbol and dashes, so that none looks alike. */
export interface Mark {
  colour: string;
  dash: string;
  symbol: string;
}

const COLOURS = ["var(--blue)", "var(--orange)", "var(--green)", "var(--purple)"];
const DASHES = ["", "7 3", "2 3"];
const SYMBOLS = [symbolCircle, symbolSquare, symbolTriangle, symbolDiamond, symbolCross];
export const MOST_MARKS = COLOURS.length * DASHES.length;

export function markOf(n: number): Mark {
  return {
    colour: COLOURS[n % COLOURS.length]!,
    dash: DASHES[Math.floor(n / COLOURS.length) % DASHES.length]!,
    symbol: symbolPath(n),
  };
}

export function symbolPath(n: number): string {
  return symbol(SYMBOLS[n % SYMBOLS.length], 60)() ?? "";
}

interface AxesProps {
  x: Axis;
  y: Axis;
  /** Left, right, top and bottom of the plot. */
  frame: Frame;
  xTitle: string;
  yTitle: string;
}

export interface Frame {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const CHARACTER = 7; // pixels, roughly

export function Axes({ x, y, frame, xTitle, yTitle }: AxesProps) {
  const { left, right, top, bottom } = frame;
  const room = (right - left) / Math.max(x.ticks.length, 1);
  return (
    <g class="axes">
      {y.ticks.map(({ at, text }) => (
        <g key={text} transform={`translate(0,${at})`}>
          <line x1={left} x2={right} />
          <text x={left - 6} dy="0.32em" text-anchor="end">
            {shortened(text, (left - 8) / CHARACTER)}
          </text>
        </g>
      ))}
      {x.ticks.map(({ at, text }) => (
        <g key={text} transform={`translate(${at},0)`}>
          <line y1={top} y2={bottom} />
          <text y={bottom + 16} text-anchor="middle">
            {shortened(text, room / CHARACTER)}
          </text>
        </g>
      ))}
      <text class="title" x={(left + right) / 2} y={bottom + 34} text-anchor="middle">
        {capitalised(xTitle)}
      </text>
      <text class="title" x={4} y={top - 10}>
        {capitalised(yTitle)}
      </text>
    </g>
  );
}

export interface LegendItem {
  mark: Mark;
  name: string;
}

/** What the marks mean; `lines` shows dashes instead of symbols. */
export function Legend({
  items,
  lines = false,
}: {
  items: readonly LegendItem[];
  lines?: boolean;
}) {
  return (
    <ul class="legend">
      {items.map(({ mark, name }) => (
        <li key={name}>
          <svg width={22} height={14} aria-hidden="true">
            {lines ? (
              <line
                x1={1}
                x2={21}
                y1={7}
                y2={7}
                stroke={mark.colour}
                stroke-width={2.5}
                stroke-dasharray={mark.dash}
              />
            ) : (
              <path d={mark.symbol} fill={mark.colour} transform="translate(11,7)" />
            )}
          </svg>
          <bdi>{name}</bdi>
        </li>
      ))}
    </ul>
  );
}

const GROUPS: Record<Column["kind"], string> = {
  about: "About the run",
  setting: "Settings",
  final: "At the end of training",
  score: "Scores",
};

/** Columns to choose from, by their kinds. */
export function columnOptions(columns: readonly Column[]): Option[] {
  return columns.map((column) => ({
    key: column.key,
    name: capitalised(titleOf(column)),
    group: GROUPS[column.kind],
  }));
}

interface TogglesProps {
  title: string;
  columns: readonly Column[];
  chosen: readonly Column[];
  onToggle: (keys: string[]) => void;
}

/** Boxes to tick for columns, folded away. The last one stays; they keep the order of the table. */
export function ColumnToggles({ title, columns, chosen, onToggle }: TogglesProps) {
  const on = (key: string) => chosen.some((column) => column.key === key);
  const toggle = (key: string) => {
    const keys = columns.map((column) => column.key).filter((each) => on(each) !== (each === key));
    if (keys.length > 0) onToggle(keys);
  };
  const options = columnOptions(columns);
  return (
    <details>
      <summary>{title}</summary>
      {[...new Set(options.map(({ group }) => group))].map((group) => (
        <fieldset key={group} class="toggles">
          <legend>{group}</legend>
          {options
            .filter((option) => option.group === group)
            .map(({ key, name }) => (
              <Toggle
                key={key}
                label={<bdi title={key}>{name}</bdi>}
                on={on(key)}
                onToggle={() => toggle(key)}
              />
            ))}
        </fieldset>
      ))}
    </details>
  );
}

/** A toggle for a logarithmic axis. */
export function LogToggle({ axis, label }: { axis: string; label: string }) {
  const logs = shown.logs.value;
  const on = logs.includes(axis);
  const toggle = () =>
    change({ logs: on ? logs.filter((each) => each !== axis) : [...logs, axis] });
  return <Toggle label={label} on={on} onToggle={toggle} />;
}

export function Toggle({
  label,
  on,
  onToggle,
}: {
  label: ComponentChildren;
  on: boolean;
  onToggle: () => void;
}) {
  return (
    <label class="option">
      <input type="checkbox" checked={on} onChange={onToggle} /> {label}
    </label>
  );
}
