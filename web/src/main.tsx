/** Start the explorer. */
import { render } from "preact";
import { App } from "./app";
import { readManifest } from "./source";
import { begin, change, code, model, models, view } from "./state";
import { watch } from "./watch";
import "./style.css";

render(<App />, document.getElementById("app")!);
void begin(readManifest(), location.hash);
watch();

// For tests, and for the curious: the state, and the networks of every open model.
Object.assign(window, { unweave: { change, code, model, models, view } });
