/** Values that have stopped changing, so that large drawings do not hold up a moving slider. */
import { useEffect, useState } from "preact/hooks";

/** The value of a component's state once it has not changed for some milliseconds. */
export function useSettled<T>(value: T, after = 120): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const waiting = window.setTimeout(() => setSettled(value), after);
    return () => window.clearTimeout(waiting);
  }, [value, after]);
  return settled;
}
