/** The frame of a panel: its title, one sentence of help, and a menu to export what it shows. */
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { problem } from "../state";
import { saveCsv, savePng, saveSvg, type Csv } from "./export";

interface Props {
  title: string;
  help?: string;
  /** The table behind the panel, for "CSV". */
  csv?: (() => Csv) | undefined;
  children: ComponentChildren;
}

export function Panel({ title, help, csv, children }: Props) {
  const panel = useRef<HTMLElement>(null);
  const name = title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  return (
    <section ref={panel} class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        <div class="exports" role="group" aria-label={`Save ${title}`}>
          <button type="button" onClick={() => saveOrSay(panel.current!, `${name}.png`)}>PNG</button>
          <button type="button" onClick={() => saveSvg(panel.current!, `${name}.svg`)}>SVG</button>
          {csv && <button type="button" onClick={() => saveCsv(csv(), `${name}.csv`)}>CSV</button>}
        </div>
      </header>
      {help && <p class="help no-export">{help}</p>}
      <div class="body">{children}</div>
    </section>
  );
}

async function saveOrSay(panel: HTMLElement, name: string): Promise<void> {
  try {
    await savePng(panel, name);
  } catch (error) {
    problem.value = `Cannot save ${name}: ${error instanceof Error ? error.message : error}. Save it as SVG instead.`;
  }
}
