/** What is shown before there is a decoder, or if there is none. */
import { canDecode, noDecoder } from "../state";

export function Waiting() {
  return canDecode.value === false ? (
    <NoWasm />
  ) : (
    <p class="waiting" role="status">
      Starting the decoder …
    </p>
  );
}

export function NoWasm() {
  return (
    <div class="note" role="status">
      The sliders need WebAssembly, which did not start in this browser, so you see only traversals
      drawn beforehand.
      <details>
        <summary>Reason</summary>
        {noDecoder.value}
      </details>
    </div>
  );
}
