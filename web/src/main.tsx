/** Start the explorer. */
import { render } from "preact";
import { App } from "./app";
import { encodeNumbers, uploads } from "./origin";
import { readManifest } from "./source";
import { begin, change, code, model, models, view } from "./state";
import { watch } from "./watch";
import "./style.css";

render(<App />, document.getElementById("app")!);
void begin(readManifest(), location.hash);
watch();

/** Encode values of one observation, in the user's units, by the first model. */
const encode = (values: ArrayLike<number>) => encodeNumbers(model.value!, values);

// For tests, and for the curious: the state, and the networks of every open model.
Object.assign(window, { unweave: { change, code, encode, model, models, uploads, view } });
