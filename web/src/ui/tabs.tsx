/** Tabs: one of them is in the order of the Tab key, and the arrow keys go to the others. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Entry<Id extends string> {
  id: Id;
  name: string;
}

interface Props<Id extends string> {
  tabs: readonly Entry<Id>[];
  shown: Id;
  onChoose: (id: Id) => void;
  children: ComponentChildren;
}

export function Tabs<Id extends string>({ tabs, shown, onChoose, children }: Props<Id>) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => reveal(list.current!), [shown]);
  const onKeyDown = (event: KeyboardEvent) => {
    const place = tabs.findIndex((tab) => tab.id === shown);
    const next = tabs[placeAfter(event.key, place, tabs.length)];
    if (!next) return;
    event.preventDefault();
    onChoose(next.id);
    list.current!.querySelector<HTMLElement>(`#tab-${next.id}`)!.focus();
  };
  return (
    <div class="tabs">
      <div ref={list} role="tablist" aria-label="Views" onKeyDown={onKeyDown}>
        {tabs.map(({ id, name }) => (
          <button
            key={id}
            type="button"
            role="tab"
            id={`tab-${id}`}
            tabIndex={id === shown ? 0 : -1}
            aria-selected={id === shown}
            aria-controls="tab-content"
            onClick={() => onChoose(id)}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-content" aria-labelledby={`tab-${shown}`}>
        {children}
      </div>
    </div>
  );
}

/** The tab that a key goes to from `place`, or -1. */
export function placeAfter(key: string, place: number, count: number): number {
  if (key === "ArrowRight") return (place + 1) % count;
  if (key === "ArrowLeft") return (place + count - 1) % count;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : -1;
}

/** Scroll a list that is wider than the screen to its chosen tab, and leave the page where it is. */
function reveal(list: HTMLElement): void {
  const chosen = list.querySelector<HTMLElement>('[aria-selected="true"]');
  if (!chosen) return;
  const [box, frame] = [chosen.getBoundingClientRect(), list.getBoundingClientRect()];
  if (box.left < frame.left || box.right > frame.right)
    list.scrollLeft += box.left - frame.left - 20;
}
