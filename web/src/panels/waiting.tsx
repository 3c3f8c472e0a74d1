/** What is shown before there is a decoder, or if there is none. */
import { canDecode } from "../state";

export function Waiting() {
  return canDecode.value === false ? <NoWasm /> : <p class="waiting" role="status">Starting the decoder …</p>;
}

export function NoWasm() {
  return (
    <p class="note" role="status">
      The sliders need WebAssembly, which this browser does not run, so only traversals drawn beforehand are shown.
    </p>
  );
}
