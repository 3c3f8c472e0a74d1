/** The page: a header, the sliders on the left, and tabs on the right. */
import type { FunctionComponent } from "preact";
import type { Model } from "./model";
import { Grid } from "./panels/grid";
import { Interpolate } from "./panels/interpolate";
import { RunPicker } from "./panels/picker";
import { Runs } from "./panels/runs/tab";
import { Stage } from "./panels/stage";
import { Traversals } from "./panels/traversals";
import { canRedo, canUndo, change, manifest, model, problem, redo, undo, view, type Tab } from "./state";

interface TabEntry {
  id: Tab;
  name: string;
  content: FunctionComponent<{ model: Model }>;
}

/** The tabs in their order. */
const TABS: TabEntry[] = [
  { id: "traversals", name: "Traversals", content: Traversals },
  { id: "grid", name: "Grid", content: Grid },
  { id: "between", name: "Interpolate", content: Interpolate },
  { id: "runs", name: "Runs", content: Runs },
];

export function App() {
  const first = model.value;
  return (
    <>
      <Header />
      <RunPicker />
      {problem.value && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
      <main>
        {first ? <Stage model={first} /> : <p class="waiting" role="status">Opening …</p>}
        {first && <Tabs model={first} />}
      </main>
    </>
  );
}

function Header() {
  return (
    <header class="top">
      <h1>{manifest.value.title}</h1>
      <div class="tools">
        <button type="button" onClick={undo} disabled={!canUndo.value}>Undo</button>
        <button type="button" onClick={redo} disabled={!canRedo.value}>Redo</button>
      </div>
    </header>
  );
}

function Tabs({ model }: { model: Model }) {
  const shown = TABS.find((tab) => tab.id === view.value.tab) ?? TABS[0];
  if (!shown) return null;
  return (
    <div class="tabs">
      <div role="tablist" aria-label="Views">
        {TABS.map(({ id, name }) => (
          <button
            key={id}
            type="button"
            role="tab"
            id={`tab-${id}`}
            aria-selected={id === shown.id}
            aria-controls="tab-content"
            onClick={() => change({ tab: id })}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-content" aria-labelledby={`tab-${shown.id}`}>
        <shown.content model={model} />
      </div>
    </div>
  );
}
