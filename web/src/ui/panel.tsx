/** The frame of a panel: its title, one sentence of help, and a menu to export what it shows. */
import type { ComponentChildren, RefObject } from "preact";
import { useRef } from "preact/hooks";
import { report, succeeded } from "../state";
import { messageOf } from "../text";
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
  return (
    <section ref={panel} class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        <Exports title={title} body={panel} csv={csv} />
      </header>
      {help && <p class="help no-export">{help}</p>}
      <div class="body">{children}</div>
    </section>
  );
}

interface ExportsProps {
  title: string;
  /** What is drawn. */
  body: RefObject<HTMLElement | null>;
  csv?: (() => Csv) | undefined;
}

/** Buttons that save what an element shows. */
export function Exports({ title, body, csv }: ExportsProps) {
  const name = title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  return (
    <div class="exports" role="group" aria-label={`Save ${title}`}>
      <button type="button" onClick={() => saveOrSay(body.current!, `${name}.png`)}>
        PNG
      </button>
      <button type="button" onClick={() => saveSvg(body.current!, `${name}.svg`)}>
        SVG
      </button>
      {csv && (
        <button type="button" onClick={() => saveCsv(csv(), `${name}.csv`)}>
          CSV
        </button>
      )}
    </div>
  );
}

async function saveOrSay(body: HTMLElement, name: string): Promise<void> {
  try {
    await savePng(body, name);
    succeeded("save");
  } catch (error) {
    report("save", `Cannot save ${name}: ${messageOf(error)}. Save it as SVG instead.`);
  }
}
