/** One axis of the parallel coordinates, with a brush for numbers and buttons for categories. */
import { useRef, useState } from "preact/hooks";
import { change } from "../../state";
import { capitalised, isolated, shortened } from "../../text";
import type { Tick } from "./axis";
import { betterText, titleOf, type Column } from "./columns";
import { outwards, rangeOf, withRange, withValue } from "./filter";
import type { Placed } from "./parallel";
import { shown } from "./shown";

const HALF = 12; // pixels on both sides of the axis that take the drag
const CLICK = 4; // a shorter drag takes the brush away

interface Props {
  placed: Placed;
  top: number;
  bottom: number;
  /** Pixels between axes. */
  room: number;
  /** Whether lines leave it to the right only, so that there is room for numbers on the left. */
  first: boolean;
}

export function AxisBrush({ placed, top, bottom, room, first }: Props) {
  const { column, axis, left } = placed;
  const characters = room / 8;
  return (
    <g class="coordinate" transform={`translate(${left},0)`}>
      <text class="title" y={16} text-anchor="middle">
        {shortened(capitalised(titleOf(column)), characters)}
        <title>{[column.key, betterText(column)].filter(Boolean).join(": ")}</title>
      </text>
      <line y1={top} y2={bottom} />
      {axis.kind === "category" ? (
        axis.ticks.map((tick) => (
          <Category key={tick.value} column={column} tick={tick} characters={characters} />
        ))
      ) : (
        <>
          {axis.ticks.map(({ at, text }) => (
            <text
              key={text}
              class="tick"
              x={first ? -5 : 5}
              y={at}
              dy="0.32em"
              text-anchor={first ? "end" : "start"}
            >
              {text}
            </text>
          ))}
          <Brush placed={placed} top={top} bottom={bottom} />
        </>
      )}
    </g>
  );
}

interface CategoryProps {
  column: Column;
  tick: Tick;
  characters: number;
}

function Category({ column: { key, name }, tick: { text, at, value }, characters }: CategoryProps) {
  const on = rangeOf(shown.filter.value, key).value === value;
  const toggle = () => change({ filter: withValue(shown.filter.value, key, on ? null : value!) });
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  };
  return (
    <g class={on ? "category on" : "category"} onClick={toggle}>
      <circle
        cy={at}
        r={4}
        role="button"
        tabindex={0}
        aria-pressed={on}
        aria-label={`Only ${isolated(name)} ${isolated(text)}`}
        onKeyDown={press}
      />
      <text class="tick" x={7} y={at} dy="0.32em" aria-hidden="true">
        {shortened(text, characters - 2)}
      </text>
      <title>{text}</title>
    </g>
  );
}

function Brush({ placed: { column, axis }, top, bottom }: Omit<Props, "room" | "first">) {
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const frame = useRef<SVGRectElement>(null);
  const { low, high } = rangeOf(shown.filter.value, column.key);
  const place = (event: PointerEvent) => {
    const { y } = frame.current!.getBoundingClientRect();
    return Math.min(Math.max(top + event.clientY - y, top), bottom);
  };
  const end = () => {
    if (drag) change({ filter: brushed(column.key, drag, axis.invert) });
    setDrag(null);
  };
  const held: [number, number] | null =
    low === null && high === null
      ? null
      : [axis.position(high) ?? top, axis.position(low) ?? bottom];
  const range = drag ?? held;
  return (
    <>
      <rect
        ref={frame}
        class="handle"
        x={-HALF}
        width={2 * HALF}
        y={top}
        height={bottom - top}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag([place(event), place(event)]);
        }}
        onPointerMove={(event) => drag && setDrag([drag[0], place(event)])}
        onPointerUp={end}
        onPointerCancel={() => setDrag(null)}
      />
      {range && (
        <rect
          class="brush"
          x={-HALF / 2}
          width={HALF}
          y={Math.min(...range)}
          height={Math.abs(range[1] - range[0])}
        />
      )}
    </>
  );
}

/** The filter after a drag; a click takes the bounds away. */
function brushed(
  key: string,
  [from, to]: [number, number],
  invert: (at: number) => number | null,
): string {
  if (Math.abs(to - from) < CLICK) return withRange(shown.filter.value, key, null, null);
  const [low, high] = [invert(Math.max(from, to)), invert(Math.min(from, to))];
  return withRange(
    shown.filter.value,
    key,
    low && outwards(low, "low"),
    high && outwards(high, "high"),
  );
}
