/** Runs beside the first one: the same observation, moved by linked sliders. */
import { useEffect } from "preact/hooks";
import { useDecoded } from "../decoded";
import { movedCode, ownCode } from "../linked";
import { LEAST_ROWS, matching, type Match, type Matching } from "../matching";
import type { Model } from "../model";
import { runName } from "../open-runs";
import { encodeUpload, originOf, type Origin, type Upload } from "../origin";
import { change, code, failures, models, report, succeeded, tryAgain, view } from "../state";
import { isolated, messageOf } from "../text";
import { Observation } from "../ui/observation";
import "./others.css";

export function Others({ model }: { model: Model }) {
  const others = view.value.open.filter((id) => id !== model.id);
  if (others.length === 0) return null;
  return (
    <section class="others" aria-label="Other runs">
      {others.map((id) => {
        const other = models.value.get(id);
        return other ? (
          <Other key={id} first={model} other={other} />
        ) : (
          <Waiting key={id} id={id} />
        );
      })}
    </section>
  );
}

function Waiting({ id }: { id: string }) {
  const failure = failures.value.get(id);
  if (failure !== undefined)
    return (
      <div class="other" role="status">
        <p>
          <bdi>{runName(id)}</bdi> cannot be opened: {failure}
        </p>
        <button
          type="button"
          aria-label={`Try again to open ${isolated(runName(id))}`}
          onClick={() => void tryAgain(id)}
        >
          Try again
        </button>
      </div>
    );
  return (
    <p class="other" role="status">
      Opening <bdi>{runName(id)}</bdi> …
    </p>
  );
}

function Other({ first, other }: { first: Model; other: Model }) {
  const origin = originOf(first);
  const linked = !view.value.unlinked.includes(other.id);
  const shown = linked
    ? movedCode(first, origin, code.value, other)
    : ownCode(first, origin, other);
  const upload = missingUpload(origin, other);
  useEffect(() => void (upload && encode(other, upload)), [upload?.id, other]);
  const found = matching(first, other);
  return (
    <article class="other" data-run={other.id} aria-label={runName(other.id)}>
      <h2>
        <bdi>{runName(other.id)}</bdi>
      </h2>
      {shown ? (
        <Beside model={other} code={shown} />
      ) : (
        <p class="help">{upload ? "Encoding your file …" : reason(first, other, origin)}</p>
      )}
      {shown && found.matches.length > 0 && (
        <label>
          <input
            type="checkbox"
            checked={linked}
            onChange={() => link(other.id, !linked)}
            aria-label={`follows the sliders: ${isolated(runName(other.id))}`}
          />{" "}
          follows the sliders
        </label>
      )}
      <Matches found={found} />
    </article>
  );
}

function Beside({ model, code }: { model: Model; code: number[] }) {
  const decoded = useDecoded(model, [code]);
  if (!decoded)
    return (
      <div class="waiting" role="status">
        Starting the decoder …
      </div>
    );
  return (
    <Observation
      model={model}
      values={decoded.values}
      label={`Decoded by ${isolated(runName(model.id))}`}
    />
  );
}

/** An upload that the first model shows, and that this one can encode but has not. */
function missingUpload(origin: Origin, other: Model): Upload | undefined {
  if (origin.kind !== "upload" || origin.upload.codes.has(other)) return undefined;
  return origin.upload.shape === other.shape.join() ? origin.upload : undefined;
}

async function encode(other: Model, upload: Upload): Promise<void> {
  try {
    await encodeUpload(other, upload);
    succeeded("encode");
  } catch (error) {
    report(
      "encode",
      `${isolated(runName(other.id))} cannot encode ${isolated(upload.name)}: ${messageOf(error)}`,
    );
  }
}

/** Why there is no image. */
function reason(first: Model, other: Model, origin: Origin): string {
  if (origin.kind === "absent")
    return "The file is not in this page, so this run cannot encode it.";
  if (origin.kind === "upload")
    return "This run does not read observations of the shape of your file.";
  if (first.data.data !== other.data.data) {
    return `This run was trained on other data (${isolated(other.data.dataName)}), so there is no common observation.`;
  }
  return "This observation is not among the rows of this run. Choose another one.";
}

function link(id: string, linked: boolean): void {
  const rest = view.value.unlinked.filter((each) => each !== id);
  change({ unlinked: linked ? rest : [...rest, id] });
}

function Matches({ found }: { found: Matching }) {
  if (found.rows < LEAST_ROWS) return null;
  const { matches } = found;
  if (matches.length === 0)
    return <p class="help">No latent variable that is used matches one of the first run.</p>;
  return (
    <details>
      <summary>
        {matches.length === 1 ? "1 matched variable" : `${matches.length} matched variables`}
      </summary>
      <ul>
        {matches.map((match) => (
          <li key={match.first.name}>
            <bdi>{match.first.name}</bdi> ↔ <bdi>{match.other.name}</bdi>{" "}
            <span class="muted">{associationText(match)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

/** A correlation with its sign, or the mutual information of classes. */
export function associationText({ association, first }: Match): string {
  const text = association.toFixed(2).replace("-", "−");
  return first.variable.discrete || association < 0 ? text : `+${text}`;
}
