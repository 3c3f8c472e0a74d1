/** Which colour stands for which channel of an image. */
import type { ImageObservation } from "../bundle";
import { css } from "../scatter/palette";
import "./channels.css";

/** Names of the channels that colours stand for: none of a photograph, or of a single channel. */
export function keyNames({ channelNames, colours }: ImageObservation): string[] {
  const shown = colours.alpha ? channelNames.slice(0, -1) : channelNames;
  return shown.length < 2 || colours.diverging || shown.join() === "red,green,blue" ? [] : shown;
}

export function ChannelKey({ seen }: { seen: ImageObservation }) {
  const names = keyNames(seen);
  if (names.length === 0) return null;
  return (
    <ul class="channel-key" aria-label="Colours of the channels">
      {names.map((name, n) => (
        <li key={n}>
          <svg width="10" height="10" aria-hidden="true">
            <rect width="10" height="10" style={{ fill: css(inBytes(seen.colours.colours[n]!)) }} />
          </svg>{" "}
          <bdi>{name}</bdi>
        </li>
      ))}
    </ul>
  );
}

function inBytes(colour: readonly number[]): [number, number, number] {
  return colour.map((part) => Math.round(255 * part)) as [number, number, number];
}
