/** The dialog that lists the keys. */
import { useEffect, useRef } from "preact/hooks";
import { allowSingleKeys, SHORTCUTS, singleKeys } from "../shortcuts";

export function Keys({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} class="keys" aria-labelledby="keys-title" onClose={onClose}>
      <h2 id="keys-title">Keyboard</h2>
      <dl>
        {SHORTCUTS.map(([keys, what]) => (
          <>
            <dt>
              {keys.map((key) =>
                key === "to" ? (
                  " to "
                ) : (
                  <>
                    <kbd>{key}</kbd>{" "}
                  </>
                ),
              )}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <label>
        <input
          type="checkbox"
          checked={singleKeys.value}
          onChange={(event) => allowSingleKeys(event.currentTarget.checked)}
        />{" "}
        Use the keys 1 to 6 and ? everywhere in the page
      </label>
      <button type="button" onClick={() => dialog.current!.close()}>
        Close
      </button>
    </dialog>
  );
}
