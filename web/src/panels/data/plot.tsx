/** The scatter: points, axes, and everything that moves over them. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Model } from "../../model";
import { showRow } from "../../origin";
import { toData, type Box, type Place, type Size } from "../../scatter/camera";
import { Gestures, type Actions } from "../../scatter/gestures";
import type { Direction } from "../../scatter/picking";
import type { Look } from "../../scatter/renderer";
import { clearSelection, contours, images, selectLasso } from "../../selection";
import { isolated } from "../../text";
import { Axes, MARGIN } from "./axes";
import { useCamera, useCanvas, useSize, type Camera } from "./camera";
import type { Cloud } from "./cloud";
import { Density, whyNoContours } from "./density";
import { Hover, spoken } from "./hover";
import { Images } from "./images";
import { Cross, CursorRing, LassoLine } from "./marks";
import { PlotTools } from "./tools";

interface Props {
  model: Model;
  cloud: Cloud;
  look: Look;
  selected: ReadonlySet<number> | null;
}

/** The point under the pointer or the keys, and the lasso as it is drawn. */
interface Pointing {
  hovered: Signal<number | null>;
  cursor: Signal<number | null>;
  path: Signal<readonly Place[]>;
}

export function Plot({ model, cloud, look, selected }: Props) {
  const lasso = useSignal(false);
  const pointing: Pointing = {
    hovered: useSignal(null),
    cursor: useSignal(null),
    path: useSignal([]),
  };
  const { hovered, cursor } = pointing;
  const [frame, size] = useSize();
  const camera = useCamera(cloud.points.whole, size);
  const box = camera.seen();
  const canvas = useCanvas(cloud, look, box, size);
  const actions = actionsOf(model, cloud, camera, size, pointing);
  const gestures = useMemo(() => new Gestures(actions), []);
  Object.assign(gestures, { actions, lasso: lasso.value });
  const row = hovered.value ?? cursor.value;

  return (
    <div class="scatter">
      <PlotTools model={model} cloud={cloud} lasso={lasso} camera={camera} />
      <div
        ref={frame}
        class={lasso.value ? "scatter-frame lassoing" : "scatter-frame"}
        tabIndex={0}
        role="application"
        aria-label={`Scatter of ${isolated(cloud.y.name)} against ${isolated(cloud.x.name)}`}
        aria-describedby="scatter-keys"
        data-testid="scatter"
        onKeyDown={(event) =>
          pressed(event, model, cloud, camera, size, cursor) && event.preventDefault()
        }
        onBlur={() => (cursor.value = null)}
        {...pointerEvents(gestures, camera)}
      >
        <Layer size={size}>
          <Axes cloud={cloud} box={box} size={size} />
        </Layer>
        <canvas ref={canvas} class="scatter-points" aria-hidden="true" />
        {images.value && (
          <Images model={model} cloud={cloud} box={box} size={size} selected={selected} />
        )}
        <Marks
          model={model}
          cloud={cloud}
          box={box}
          size={size}
          row={row}
          path={pointing.path.value}
        />
        <div class="scatter-cards" inert>
          {row !== null && (
            <Hover model={model} row={row} at={cloud.picker.screen(box, size, row)} size={size} />
          )}
        </div>
      </div>
      <p class="spoken" aria-live="polite">
        {cursor.value === null ? "" : spoken(model, cursor.value)}
      </p>
    </div>
  );
}

/** A drawing over the whole frame, with its origin between the axes. */
function Layer({ size, children }: { size: Size; children: ComponentChildren }) {
  const width = size.width + MARGIN.left + MARGIN.right;
  const height = size.height + MARGIN.top + MARGIN.bottom;
  return (
    <svg class="scatter-layer" width={width} height={height} aria-hidden="true">
      <g transform={`translate(${MARGIN.left} ${MARGIN.top})`}>{children}</g>
    </svg>
  );
}

interface MarksProps {
  model: Model;
  cloud: Cloud;
  box: Box;
  size: Size;
  row: number | null;
  path: readonly Place[];
}

function Marks({ model, cloud, box, size, row, path }: MarksProps) {
  return (
    <Layer size={size}>
      <clipPath id="scatter-clip">
        <rect width={size.width} height={size.height} />
      </clipPath>
      <g clip-path="url(#scatter-clip)">
        {contours.value && !whyNoContours(cloud) && (
          <Density model={model} cloud={cloud} box={box} size={size} />
        )}
        <LassoLine path={path} box={box} size={size} />
        <CursorRing row={row} cloud={cloud} box={box} size={size} />
        <Cross model={model} cloud={cloud} box={box} size={size} />
      </g>
    </Layer>
  );
}

/** What pointers do on the scatter. */
function actionsOf(
  model: Model,
  cloud: Cloud,
  camera: Camera,
  size: Size,
  { hovered, path }: Pointing,
): Actions {
  const rowAt = (at: Place | null) => at && cloud.picker.nearest(camera.seen(), size, at);
  return {
    pan: camera.pan,
    zoom: camera.zoom,
    hover: (at) => (hovered.value = rowAt(at)),
    click: (at) => show(model, rowAt(at)),
    draw: (drawn) => (path.value = drawn),
    drawn: (drawn) => {
      path.value = [];
      if (drawn.length > 2) selectLasso(drawn.map((at) => toData(camera.seen(), size, at)));
    },
  };
}

function show(model: Model, row: number | null): void {
  if (row !== null) showRow(model, row);
}

function pointerEvents(gestures: Gestures, camera: Camera) {
  return {
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
      gestures.down(event.pointerId, placeOf(event), event.shiftKey);
    },
    onPointerMove: (event: PointerEvent) => gestures.move(event.pointerId, placeOf(event)),
    onPointerUp: (event: PointerEvent) => gestures.up(event.pointerId, placeOf(event)),
    onPointerCancel: (event: PointerEvent) => gestures.cancel(event.pointerId),
    onPointerLeave: () => !gestures.busy && gestures.actions.hover(null),
    onWheel: (event: WheelEvent) => {
      if (!zooms(event)) return;
      event.preventDefault();
      camera.zoom(Math.exp(-event.deltaY / 400), placeOf(event));
    },
  };
}

/** Whether the wheel is meant for the plot: with a key (pinching a touchpad counts as one), or when
 * the plot has the focus. Otherwise it scrolls the page. */
function zooms(event: WheelEvent): boolean {
  return event.ctrlKey || event.metaKey || event.currentTarget === document.activeElement;
}

/** Where a pointer is, in pixels from the left upper corner between the axes. */
function placeOf(event: PointerEvent | WheelEvent): Place {
  const frame = (event.currentTarget as Element).getBoundingClientRect();
  return [event.clientX - frame.left - MARGIN.left, event.clientY - frame.top - MARGIN.top];
}

const ARROWS: Record<string, { direction: Direction; pan: Place }> = {
  ArrowLeft: { direction: "left", pan: [60, 0] },
  ArrowRight: { direction: "right", pan: [-60, 0] },
  ArrowUp: { direction: "up", pan: [0, 60] },
  ArrowDown: { direction: "down", pan: [0, -60] },
};
const STEP = 1.3;

/** Do what a key asks for; return whether it asks for anything. */
function pressed(
  event: KeyboardEvent,
  model: Model,
  cloud: Cloud,
  camera: Camera,
  size: Size,
  cursor: Signal<number | null>,
): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const arrow = ARROWS[event.key];
  if (arrow && event.shiftKey) camera.pan(arrow.pan);
  else if (arrow)
    cursor.value = nextPoint(cloud, camera.seen(), size, cursor.value, arrow.direction);
  else if (event.key === "+" || event.key === "=") camera.zoom(STEP);
  else if (event.key === "-") camera.zoom(1 / STEP);
  else if (event.key === "0") camera.reset();
  else if (event.key === "Enter") show(model, cursor.value);
  else if (event.key === "Escape") clearSelection();
  else return false;
  return true;
}

/** The next point in a direction; the first one is in the middle. */
function nextPoint(
  { picker }: Cloud,
  box: Box,
  size: Size,
  from: number | null,
  direction: Direction,
): number | null {
  if (from === null) return picker.middle(box, size);
  return picker.neighbour(box, size, from, direction) ?? from;
}
