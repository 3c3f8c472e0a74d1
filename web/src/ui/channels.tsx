/** Which colour stands for which channel of an image. */
import type { ImageObservation } from "../bundle";
import { colourChannels } from "./observation";
import { css } from "../scatter/palette";
import { significant } from "../text";
import "./channels.css";

/** Names of the channels that colours stand for: none of a photograph, or of a single channel. */
export function keyNames({ channelNames, colours }: ImageObservation): string[] {
  const shown = colours.alpha ? channelNames.slice(0, -1) : channelNames;
  return shown.length < 2 || colours.diverging || shown.join() === "red,green,blue" ? [] : shown;
}

/** From which to which value the colours of a channel go, in the user's units. Those of photographs and
 * of values without units say nothing. */
export function rangeText(seen: ImageObservation, channel: number): string {
  const { colours, units, pixels } = seen;
  const [scale, shift] = [units.scale, units.shift].map((all) => all[channel] ?? all[0]!);
  if (pixels || (scale === 1 && shift === 0)) return "";
  const ends = [colours.low[channel]!, colours.high[channel]!];
  return ends.map((end) => significant(end * scale! + shift!, 3)).join(" to ");
}

/** What the colours of an image stand for. */
export function ChannelKey({ seen }: { seen: ImageObservation }) {
  const names = keyNames(seen);
  if (names.length === 0) return <Shades seen={seen} />;
  return (
    <ul class="channel-key" aria-label="Colours of the channels">
      {names.map((name, n) => (
        <li key={n}>
          <svg width="10" height="10" aria-hidden="true">
            <rect width="10" height="10" style={{ fill: css(inBytes(seen.colours.colours[n]!)) }} />
          </svg>{" "}
          <bdi>{name}</bdi>
          {rangeText(seen, n) && `: ${rangeText(seen, n)}`}
        </li>
      ))}
    </ul>
  );
}

/** The values of a single channel. */
function Shades({ seen }: { seen: ImageObservation }) {
  const text = rangeText(seen, 0);
  if (text === "" || colourChannels(seen.colours) > 1) return null;
  const ends = seen.colours.diverging ? "Blue to red" : "Black to white";
  return <p class="channel-key">{`${ends}: ${text}`}</p>;
}

function inBytes(colour: readonly number[]): [number, number, number] {
  return colour.map((part) => Math.round(255 * part)) as [number, number, number];
}
