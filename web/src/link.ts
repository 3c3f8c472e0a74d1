/** A link to what the page shows now. */
import { encode, view } from "./state";

export function currentLink(): string {
  return `${location.href.replace(/#.*$/, "")}#${encode(view.value)}`;
}

/** Copy text; return whether that worked. Pages from files may have no clipboard, so try both ways. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  const before = document.activeElement;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return copied;
}
