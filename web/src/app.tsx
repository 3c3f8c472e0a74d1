/** The page: a header, the sliders on the left, and tabs on the right. */
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { recall, remember } from "./memory";
import type { Model } from "./model";
import { Data } from "./panels/data/data";
import { Factors } from "./panels/factors/factors";
import { Grid } from "./panels/grid";
import { Interpolate } from "./panels/interpolate";
import { NothingOpen } from "./panels/nothing-open";
import { RunPicker } from "./panels/picker";
import { Runs } from "./panels/runs/tab";
import { Stage } from "./panels/stage";
import { Traversals } from "./panels/traversals";
import { press } from "./shortcuts";
import { change, manifest, model, problem, view, type Tab } from "./state";
import { Footer } from "./ui/footer";
import { Header } from "./ui/header";
import { Keys } from "./ui/keys";
import { Tabs } from "./ui/tabs";
import { Tour } from "./ui/tour";

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
  { id: "data", name: "Data", content: Data },
  { id: "factors", name: "Factors", content: Factors },
  { id: "runs", name: "Runs", content: Runs },
];

export function App() {
  const [shown, setShown] = useState<"tour" | "keys" | null>(null);
  const first = model.value;
  useShortcuts(() => setShown("keys"));
  const close = () => setShown(null);
  return (
    <>
      <Header onTour={() => setShown("tour")} onKeys={() => setShown("keys")} />
      <RunPicker />
      <Hint onTour={() => setShown("tour")} />
      <Problem />
      <main>
        {first ? <Stage model={first} /> : <NothingOpen />}
        {first ? <Views model={first} /> : <RunsAlone />}
      </main>
      <Footer model={first} />
      {shown === "tour" && first && <Tour onClose={closeTour(close)} />}
      {shown === "keys" && <Keys onClose={close} />}
    </>
  );
}

/** Close the tour and go back to its button. */
function closeTour(close: () => void): () => void {
  return () => {
    close();
    document.querySelector<HTMLElement>(".tour-button")?.focus();
  };
}

function useShortcuts(showKeys: () => void): void {
  useEffect(() => {
    const openTab = (n: number) => TABS[n] && change({ tab: TABS[n].id });
    const listen = (event: KeyboardEvent) => {
      if (press(event, { openTab, showKeys })) event.preventDefault();
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}

const VISITED = "unweave-visited";

/** One line at the first visit. */
function Hint({ onTour }: { onTour: () => void }) {
  const [hidden, setHidden] = useState(() => recall(VISITED) !== null);
  if (hidden) return null;
  const hide = () => {
    remember(VISITED, "yes");
    setHidden(true);
  };
  return (
    <p class="welcome">
      <span>
        New here?{" "}
        <span class="longer">
          The model describes each observation by a few numbers, its latent variables. Move a slider
          to see what one of them means.
        </span>
      </span>
      <button
        type="button"
        onClick={() => {
          hide();
          onTour();
        }}
      >
        Start the tour
      </button>
      <button type="button" onClick={hide}>
        Hide
      </button>
    </p>
  );
}

function Problem() {
  if (!problem.value) return null;
  return (
    <p class="problem" role="alert">
      {problem.value}{" "}
      <button type="button" onClick={() => (problem.value = "")}>
        Dismiss
      </button>
    </p>
  );
}

/** The table of runs, which is there without any model. */
function RunsAlone() {
  if (manifest.value.runs.length === 0) return null;
  const tabs = TABS.filter(({ id }) => id === "runs");
  return (
    <Tabs tabs={tabs} shown="runs" onChoose={() => undefined}>
      <Runs model={undefined} />
    </Tabs>
  );
}

function Views({ model }: { model: Model }) {
  const shown = TABS.find((tab) => tab.id === view.value.tab) ?? TABS[0];
  if (!shown) return null;
  return (
    <Tabs tabs={TABS} shown={shown.id} onChoose={(tab) => change({ tab })}>
      <shown.content model={model} />
    </Tabs>
  );
}
