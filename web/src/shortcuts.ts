/** Keys that work everywhere in the page. */
import { signal } from "@preact/signals";
import { recall, remember } from "./memory";
import { redo, undo } from "./state";

const KEY = "unweave-single-keys";

/** Whether keys without Ctrl do something anywhere in the page. Speech input may type them by mistake. */
export const singleKeys = signal(recall(KEY) !== "off");

export function allowSingleKeys(on: boolean): void {
  singleKeys.value = on;
  remember(KEY, on ? "on" : "off");
}

/** What the dialog "Keyboard" lists. */
export const SHORTCUTS: [keys: string[], what: string][] = [
  [["1", "to", "6"], "Open a tab"],
  [["?"], "Show this list"],
  [["←", "→"], "Move a slider, go to the next tab, or read a curve"],
  [["Page Up", "Page Down"], "Move a slider in larger steps"],
  [["Home", "End"], "First or last tab; ends of a slider"],
  [["Ctrl", "Z"], "Undo"],
  [["Ctrl", "Shift", "Z"], "Redo (or Ctrl Y)"],
  [["Delete"], "On a slider or a class: back to the observation"],
  [["←", "→", "↑", "↓"], "In rows and grids of images: go to the next one; Enter takes its values"],
  [
    ["←", "→", "↑", "↓"],
    "In the scatter of the data: go to the next point; Enter sets the sliders",
  ],
  [["Shift", "←"], "In the scatter of the data: move (all arrows)"],
  [["+", "−", "0"], "In the scatter of the data: zoom in, zoom out, reset the view"],
  [["Esc"], "Close what is open; in the scatter, clear the selection"],
];

export interface Actions {
  openTab: (n: number) => void;
  showKeys: () => void;
}

/** Do what a key stands for; return whether it stands for anything. */
export function press(event: KeyboardEvent, actions: Actions): boolean {
  const action = isTyping(event.target) || isDialogOpen() ? null : actionOf(event, actions);
  action?.();
  return action !== null;
}

function actionOf(event: KeyboardEvent, actions: Actions): (() => void) | null {
  const key = event.key.toLowerCase();
  if (event.altKey) return null;
  if (event.ctrlKey || event.metaKey) {
    if (key === "z") return event.shiftKey ? redo : undo;
    return key === "y" ? redo : null;
  }
  if (!singleKeys.value) return null;
  if (key === "?") return actions.showKeys;
  return /^[1-9]$/.test(key) ? () => actions.openTab(+key - 1) : null;
}

/** Keys would act on what is behind a dialog. */
function isDialogOpen(): boolean {
  return document.querySelector('dialog[open], [role="dialog"]') !== null;
}

/** Whether keys are text for the element: not for sliders, boxes to tick and buttons. */
function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement)
    return !["range", "checkbox", "radio", "button", "file"].includes(target.type);
  return target.isContentEditable || target.matches("textarea, select");
}
