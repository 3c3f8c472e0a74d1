/** What the colours of the points mean. */
import { css, DISTINCT, MISSING, scaleColour } from "../../scatter/palette";
import { clearSelection, range, selectRange } from "../../selection";
import { isolated } from "../../text";
import { shade } from "../../theme";
import type { ClassEntry, Colouring } from "./colouring";

export function Legend({ colours }: { colours: Colouring }) {
  if (!colours.name) return null;
  return (
    <div class="colour-key">
      <h3>
        <bdi>{colours.name}</bdi>
      </h3>
      {colours.scale && <ColourBar ends={colours.ends} />}
      {colours.classes.length > 0 && (
        <ul>
          {colours.classes.map((entry) => (
            <li key={entry.value}>
              <Entry of={colours.key} entry={entry} />
            </li>
          ))}
        </ul>
      )}
      {colours.classes.length > DISTINCT && (
        <p class="help">Colours repeat after {DISTINCT} values.</p>
      )}
      {colours.missing > 0 && (
        <p class="missing">
          <Swatch colour={css(MISSING)} /> missing <span class="count">{colours.missing}</span>
        </p>
      )}
    </div>
  );
}

/** A class; a click selects its rows, and another one all again. */
function Entry({ of, entry }: { of: string; entry: ClassEntry }) {
  const [key, low, high] = range.value ?? [];
  const alone = key === of && low === entry.value && high === entry.value;
  return (
    <button
      type="button"
      class="key"
      aria-pressed={alone}
      title="Select these rows"
      onClick={() => (alone ? clearSelection() : selectRange(of, entry.value, entry.value))}
    >
      <Swatch colour={css(entry.colour)} /> <bdi class="value">{entry.name}</bdi>{" "}
      <span class="count">{entry.count}</span>
    </button>
  );
}

function Swatch({ colour }: { colour: string }) {
  return (
    <svg width="11" height="11" aria-hidden="true">
      <circle cx="5.5" cy="5.5" r="5.5" style={{ fill: colour }} />
    </svg>
  );
}

const STRIPES = 24;

function ColourBar({ ends }: { ends: [string, string] }) {
  return (
    <div class="colour-bar">
      <svg
        viewBox={`0 0 ${STRIPES} 1`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Colours from ${isolated(ends[0])} (dark) to ${isolated(ends[1])} (bright)`}
      >
        {Array.from({ length: STRIPES }, (_, n) => (
          <rect
            key={n}
            x={n}
            width={1.05}
            height={1}
            style={{ fill: css(scaleColour(n / (STRIPES - 1), shade.value === "dark")) }}
          />
        ))}
      </svg>
      <bdi>{ends[0]}</bdi>
      <bdi>{ends[1]}</bdi>
    </div>
  );
}
