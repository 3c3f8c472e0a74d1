/** The address of the page, which holds the view. A page inside a notebook has none of its own. */

export function hasAddress(): boolean {
  return location.href !== "about:srcdoc";
}

export function writeFragment(fragment: string): void {
  if (!hasAddress()) return;
  try {
    history.replaceState(null, "", `#${fragment}`);
  } catch {
    // Some browsers refuse many changes in quick succession. The next change is written again.
  }
}
