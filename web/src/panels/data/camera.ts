/** Hooks of the scatter: what part of it is seen, its size, its canvas. */
import { batch, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import {
  centre,
  panned,
  toData,
  zoomed,
  type Box,
  type Place,
  type Size,
} from "../../scatter/camera";
import { createRenderer, type Look, type Renderer } from "../../scatter/renderer";
import { box as kept } from "../../selection";
import { change } from "../../state";
import { MARGIN } from "./axes";
import type { Cloud } from "./cloud";

export interface Camera {
  /** What is seen now, even if it has not been drawn yet. */
  seen: () => Box;
  pan: (by: Place) => void;
  /** Enlarge around a place on the screen, or the middle. */
  zoom: (factor: number, at?: Place) => void;
  reset: () => void;
}

/** Milliseconds without motion after which the view is kept for the link and for undo. */
const PAUSE = 250;

/**
 * A camera on a plot. It moves at once, and the view, which everything else reads, follows when it
 * rests; a view from a link or from undo moves the camera.
 */
export function useCamera(whole: Box, size: Size): Camera {
  const moved = useSignal<{ after: Box | null; whole: Box; box: Box } | null>(null);
  const timer = useRef(0);
  const seen = () => {
    const now = moved.value;
    return now && now.after === kept.value && now.whole === whole ? now.box : (kept.value ?? whole);
  };
  const look = (box: Box) => {
    moved.value = { after: kept.value, whole, box };
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => keep(box), PAUSE);
  };
  // From here on the view tells what is seen, so that undo can go back to where the motion began. If
  // it has changed meanwhile, the motion is over.
  const keep = (box: Box) =>
    batch(() => {
      if (moved.value?.after === kept.value)
        change({ box: box === whole ? null : toView(box) }, "camera");
      moved.value = null;
    });
  useEffect(() => () => window.clearTimeout(timer.current), [whole]);
  return {
    seen,
    pan: (by) => look(panned(seen(), size, by)),
    zoom: (factor, at) =>
      look(zoomed(seen(), whole, factor, at ? toData(seen(), size, at) : centre(seen()))),
    reset: () => look(whole),
  };
}

function toView({ x, y }: Box): [number, number, number, number] {
  return [...x, ...y].map((end) => +end.toPrecision(7)) as [number, number, number, number];
}

/** The pixels between the axes, which follow the size of the element. */
export function useSize(): [RefObject<HTMLDivElement | null>, Size] {
  const frame = useRef<HTMLDivElement | null>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const measure = () => setSize(between(frame.current!));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  return [frame, size];
}

function between(frame: HTMLElement): Size {
  return {
    width: Math.max(frame.clientWidth - MARGIN.left - MARGIN.right, 0),
    height: Math.max(frame.clientHeight - MARGIN.top - MARGIN.bottom, 0),
  };
}

/** A canvas that shows the points, drawn only when something has changed. */
export function useCanvas(
  cloud: Cloud,
  look: Look,
  box: Box,
  size: Size,
): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const [renderer, setRenderer] = useState<Renderer | null>(null);
  useLayoutEffect(() => {
    const element = canvas.current!;
    let made: Renderer | null = null;
    const create = () => setRenderer((made = createRenderer(element)));
    const stop = new AbortController();
    const { signal } = stop;
    element.addEventListener("webglcontextlost", (event) => event.preventDefault(), { signal });
    element.addEventListener("webglcontextrestored", create, { signal });
    create();
    return () => {
      stop.abort();
      // Not before: the renderer after a restoration has the same context.
      made?.dispose();
    };
  }, []);
  useLayoutEffect(() => renderer?.place(cloud.points), [renderer, cloud]);
  useLayoutEffect(() => renderer?.style(look), [renderer, look]);
  useLayoutEffect(() => {
    if (!renderer || size.width <= 0 || size.height <= 0) return;
    // Several events may come before the next frame, which shows where the last one leads.
    const frame = requestAnimationFrame(() =>
      renderer.draw(box, size, window.devicePixelRatio || 1),
    );
    return () => cancelAnimationFrame(frame);
  }, [renderer, cloud, look, box, size]);
  return canvas;
}
