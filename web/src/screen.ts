/** The size of the screen. */
import { signal } from "@preact/signals";

const query = window.matchMedia("(max-width: 860px)"); // as in style.css

/** Whether there is one column only. */
export const narrow = signal(query.matches);
query.addEventListener("change", ({ matches }) => (narrow.value = matches));
