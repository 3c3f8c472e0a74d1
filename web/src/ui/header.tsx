/** The head of the page: its title, undo, link, theme, tour and keys. */
import { useEffect, useState } from "preact/hooks";
import { hasAddress } from "../address";
import { copy, currentLink } from "../link";
import { originOf } from "../origin";
import { canRedo, canUndo, manifest, model, redo, undo } from "../state";
import { chooseTheme, theme, THEMES, type Theme } from "../theme";
import "./header.css";

interface Props {
  onTour: () => void;
  onKeys: () => void;
}

export function Header({ onTour, onKeys }: Props) {
  return (
    <header class="top">
      <h1>{manifest.value.title}</h1>
      <div class="tools">
        <button type="button" onClick={undo} disabled={!canUndo.value} title="Ctrl Z">
          Undo
        </button>
        <button type="button" onClick={redo} disabled={!canRedo.value} title="Ctrl Shift Z">
          Redo
        </button>
        {hasAddress() && <CopyLink />}
        <ThemeChoice />
        <button type="button" class="tour-button" onClick={onTour}>
          Tour
        </button>
        <button type="button" class="keys-button" onClick={onKeys} title="?">
          Keyboard
        </button>
      </div>
    </header>
  );
}

const SAID_FOR = 4000; // milliseconds

/** A button that copies a link to this view, and says so. */
function CopyLink() {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (!said) return;
    const timer = window.setTimeout(() => setSaid(""), SAID_FOR);
    return () => window.clearTimeout(timer);
  }, [said]);
  const click = async () => {
    const copied = await copy(currentLink());
    setSaid((copied ? "Link copied." : "Copy a link to this view.") + exception());
  };
  return (
    <>
      <span class="said" role="status">
        {said}
      </span>
      <button type="button" onClick={click}>
        Copy link
      </button>
    </>
  );
}

/** Say that a link does not contain the user's file, only its code. */
function exception(): string {
  const isFile = model.value && originOf(model.value).kind === "upload";
  return isFile ? " Your file is not in it." : "";
}

const NAMES: Record<Theme, string> = {
  system: "Theme: system",
  light: "Theme: light",
  dark: "Theme: dark",
};

function ThemeChoice() {
  return (
    <select
      aria-label="Theme"
      value={theme.value}
      onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}
    >
      {THEMES.map((each) => (
        <option key={each} value={each}>
          {NAMES[each]}
        </option>
      ))}
    </select>
  );
}
