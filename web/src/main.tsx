/** Start the explorer. */
import { render } from "preact";
import { App } from "./app";
import { createRenderer } from "./scatter/renderer";
import { selection } from "./selection";
import { readManifest } from "./source";
import { begin, change, code, model, models, view } from "./state";
import "./style.css";

render(<App />, document.getElementById("app")!);
void begin(readManifest(), location.hash);

// For tests, and for the curious: the state, and the networks of every open model.
Object.assign(window, { unweave: { change, code, createRenderer, model, models, selection, view } });
