/** The dialog that lists the keys. */
import { useEffect, useRef } from "preact/hooks";
import { SHORTCUTS } from "../shortcuts";

export function Keys({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} class="keys" aria-labelledby="keys-title" onClose={onClose}>
      <h2 id="keys-title">Keyboard</h2>
      <dl>
        {SHORTCUTS.map(([keys, what]) => (
          <>
            <dt>{keys.map((key) => (key === "to" ? " to " : <><kbd>{key}</kbd> </>))}</dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current!.close()}>Close</button>
    </dialog>
  );
}
