/** Keys that work everywhere in the page. */
import { redo, undo } from "./state";

/** What the dialog "Keyboard" lists. */
export const SHORTCUTS: [keys: string[], what: string][] = [
  [["1", "to", "6"], "Open a tab"],
  [["←", "→"], "Move a slider, or go to the tab beside"],
  [["Page Up", "Page Down"], "Move a slider in larger steps"],
  [["Home", "End"], "First or last tab; ends of a slider"],
  [["Ctrl", "Z"], "Undo"],
  [["Ctrl", "Shift", "Z"], "Redo (or Ctrl Y)"],
  [["?"], "Show this list"],
  [["Esc"], "Close what is open"],
];

export interface Actions {
  openTab: (n: number) => void;
  showKeys: () => void;
}

/** Do what a key stands for; return whether it stands for anything. */
export function press(event: KeyboardEvent, actions: Actions): boolean {
  const action = isTyping(event.target) ? null : actionOf(event, actions);
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
  if (key === "?") return actions.showKeys;
  return /^[1-9]$/.test(key) ? () => actions.openTab(+key - 1) : null;
}

/** Whether keys are text for the element: not for sliders, boxes to tick and buttons. */
function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["range", "checkbox", "radio", "button", "file"].includes(target.type);
  return target.isContentEditable || target.matches("textarea, select");
}
