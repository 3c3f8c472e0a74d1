/** Start the explorer. */
import { render } from "preact";
import "./style.css"; // before the style sheets of components, which add to it
import { App } from "./app";
import { encodeNumbers, uploads } from "./origin";
import { createRenderer } from "./scatter/renderer";
import { selection } from "./selection";
import { readManifest } from "./source";
import { begin, change, code, follow, model, models, view } from "./state";
import { startTheme } from "./theme";
import { watch } from "./watch";

startTheme();
render(<App />, document.getElementById("app")!);
void begin(readManifest(), location.hash);
watch();
// The event knows the link; the address may have been rewritten for an earlier change since.
window.addEventListener("hashchange", ({ newURL }) => follow(new URL(newURL).hash));

/** Encode values of one observation, in the user's units, by the first model. */
const encode = (values: ArrayLike<number>) => encodeNumbers(model.value!, values);

// For tests, and for the curious: the state, and the networks of every open model.
Object.assign(window, {
  unweave: { change, code, createRenderer, encode, model, models, selection, uploads, view },
});
