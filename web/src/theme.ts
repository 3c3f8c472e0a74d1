/** Light and dark: as the user wants it, or as the system has it. */
import { computed, effect, signal } from "@preact/signals";
import { recall, remember } from "./memory";

export type Theme = "system" | "light" | "dark";
export const THEMES: Theme[] = ["system", "light", "dark"];
const KEY = "unweave-theme";

const systemIsDark = signal(false);
export const theme = signal<Theme>("system");

/** What the page shows: "light" or "dark". */
export const shade = computed(() => {
  if (theme.value !== "system") return theme.value;
  return systemIsDark.value ? "dark" : "light";
});

export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  remember(KEY, chosen);
}

/** Follow the system and the user from now on. */
export function startTheme(): void {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  systemIsDark.value = system.matches;
  system.addEventListener("change", (event) => (systemIsDark.value = event.matches));
  const remembered = recall(KEY) as Theme;
  if (THEMES.includes(remembered)) theme.value = remembered;
  effect(() => document.documentElement.setAttribute("data-theme", shade.value));
}
