/** A short tour: a card that goes from one part of the page to the next. */
import { useEffect, useRef, useState } from "preact/hooks";
import { narrow } from "../screen";
import { change, view, type Tab } from "../state";
import "./tour.css";

interface Step {
  title: string;
  text: string;
  /** What the card points at. */
  target: string;
  tab?: Tab;
}

export const STEPS: Step[] = [
  {
    title: "Sliders",
    text: "Each slider is a latent variable: a number by which the model describes an observation, and which should mean one thing. The most informative variables come first; unused ones are folded away.",
    target: ".all-sliders",
  },
  {
    title: "Image",
    text: "Move a slider, and the decoder draws the new code. What changes in the image is what the variable means.",
    target: ".current",
  },
  {
    title: "Tabs",
    text: "Traversals show all variables at once. The other tabs show grids, interpolations, the data, factors and runs.",
    target: '[role="tablist"]',
    tab: "traversals",
  },
  {
    title: "Data",
    text: "Each point is an observation. Click one to set the sliders to its code; draw around some to compare them with the rest.",
    target: "#tab-content",
    tab: "data",
  },
  {
    title: "Factors",
    text: "A strongly coloured cell means that a variable explains much of a factor. Click it to see both in the scatter.",
    target: "#tab-content",
    tab: "factors",
  },
  {
    title: "Save and share",
    text: "You can save every panel as a picture or a table. “Copy link” copies a link to exactly what you see now.",
    target: "#tab-content .exports",
    tab: "traversals",
  },
];

export function Tour({ onClose }: { onClose: () => void }) {
  const [n, setN] = useState(0);
  const before = useRef(view.value.tab);
  const card = useRef<HTMLElement>(null);
  const step = STEPS[n]!;
  useEffect(() => {
    if (step.tab && step.tab !== view.value.tab) change({ tab: step.tab }, "tour");
    card.current!.querySelector<HTMLElement>(".next")!.focus({ preventScroll: true });
  }, [n]);
  usePointer(card, step);
  const close = () => {
    if (before.current !== view.value.tab) change({ tab: before.current }, "tour");
    onClose();
  };
  return (
    <section
      ref={card}
      class="tour"
      role="dialog"
      aria-labelledby="tour-title"
      aria-describedby="tour-text"
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      <h2 id="tour-title">{step.title}</h2>
      <p id="tour-text">{step.text}</p>
      <div class="tools">
        <span class="count">
          {n + 1} of {STEPS.length}
        </span>
        <button type="button" onClick={close}>
          Close
        </button>
        {n > 0 && (
          <button type="button" onClick={() => setN(n - 1)}>
            Back
          </button>
        )}
        <button
          type="button"
          class="next"
          onClick={() => (n + 1 < STEPS.length ? setN(n + 1) : close())}
        >
          {n + 1 < STEPS.length ? "Next" : "Done"}
        </button>
      </div>
    </section>
  );
}

/** Mark what a step is about, and lay the card beside it. */
function usePointer(card: { current: HTMLElement | null }, step: Step): void {
  const tab = view.value.tab;
  // After all is drawn: the target may be in a tab that has just been opened.
  useEffect(() => {
    const target = document.querySelector(step.target);
    target?.classList.add("tour-target");
    // The page may scroll once more after the card is gone.
    const lay = () => card.current && layBeside(card.current, target);
    const show = () => {
      target?.scrollIntoView({ block: narrow.value ? "start" : "nearest", behavior: "instant" });
      lay();
    };
    show();
    const grown = new ResizeObserver(show); // as when something is unfolded
    if (target) grown.observe(target);
    window.addEventListener("resize", lay);
    window.addEventListener("scroll", lay, true);
    return () => {
      target?.classList.remove("tour-target");
      grown.disconnect();
      window.removeEventListener("resize", lay);
      window.removeEventListener("scroll", lay, true);
    };
  }, [step, tab]);
}

function layBeside(card: HTMLElement, target: Element | null): void {
  const size = { width: window.innerWidth, height: window.innerHeight };
  const place = beside(target?.getBoundingClientRect() ?? null, card.getBoundingClientRect(), size);
  card.style.left = `${place.left}px`;
  card.style.top = `${place.top}px`;
}

interface Size {
  width: number;
  height: number;
}
interface Box extends Size {
  left: number;
  top: number;
}

const GAP = 12;

/** Where a card of a size lies: beside the target if there is room, otherwise in the lower or the upper
 * corner, whichever hides less of the target. */
export function beside(
  target: Box | null,
  card: Size,
  screen: Size,
): { left: number; top: number } {
  const corner = { left: screen.width - card.width - GAP, top: screen.height - card.height - GAP };
  if (!target) return corner;
  const left = clamp(target.left, GAP, corner.left);
  const top = clamp(target.top, GAP, corner.top);
  const below = { left, top: target.top + target.height + GAP };
  const above = { left, top: target.top - card.height - GAP };
  const right = { left: target.left + target.width + GAP, top };
  const free = [below, right, above].find((place) => fits(place, card, screen));
  const upper = { left: corner.left, top: GAP };
  return free ?? (hidden(target, corner, card) <= hidden(target, upper, card) ? corner : upper);
}

/** How many pixels of the height of a target a card hides. */
function hidden(target: Box, { top }: { top: number }, card: Size): number {
  return Math.max(
    Math.min(target.top + target.height, top + card.height) - Math.max(target.top, top),
    0,
  );
}

function fits(place: { left: number; top: number }, card: Size, screen: Size): boolean {
  return (
    place.left >= 0 &&
    place.top >= 0 &&
    place.left + card.width <= screen.width &&
    place.top + card.height <= screen.height
  );
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(value, high));
}
