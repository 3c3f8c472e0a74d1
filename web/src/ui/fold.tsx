/** Something that is folded away until it is asked for. */
import type { ComponentChildren } from "preact";

interface Props {
  title: string;
  open: boolean;
  onToggle: (open: boolean) => void;
  children: ComponentChildren;
}

export function Fold({ title, open, onToggle, children }: Props) {
  return (
    <details
      class="fold"
      open={open}
      onToggle={(event) => event.currentTarget.open !== open && onToggle(event.currentTarget.open)}
    >
      <summary>{title}</summary>
      {open && children}
    </details>
  );
}
