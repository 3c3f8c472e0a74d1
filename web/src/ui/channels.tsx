/** Which colour stands for which channel of an image. */
import type { ImageObservation } from "../bundle";
import { css } from "../scatter/palette";
import "./channels.css";

const PLAIN = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];

/** Whether colours need a key: there are several, and they are not red, green and blue as in a photograph. */
export function isFalseColour({ channels, colours }: ImageObservation): boolean {
  const shown = colours.alpha ? channels - 1 : channels;
  if (shown < 2 || colours.diverging) return false;
  return shown !== 3 || colours.colours.slice(0, 3).some((colour, n) => colour.join() !== PLAIN[n]!.join());
}

export function ChannelKey({ seen }: { seen: ImageObservation }) {
  if (!isFalseColour(seen)) return null;
  const shown = seen.colours.alpha ? seen.channels - 1 : seen.channels;
  return (
    <ul class="channel-key" aria-label="Colours of the channels">
      {seen.channelNames.slice(0, shown).map((name, n) => (
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
