/** The code of a model beside the first one: the same observation, moved as the first one's sliders. */
import { matching, rowOf, type Match } from "./matching";
import { classOf, LIMIT, scoreOf, valueAt, withClass, type Code, type Model } from "./model";

/** The row of another model that has the same observation, or null. */
export function sameRow(first: Model, row: number, other: Model): number | null {
  if (first.data.data !== other.data.data) return null;
  return rowOf(other, first.data.rows.index[row]!);
}

/**
 * The code of another model that goes with the first one's: of the same observation, and moved as
 * the first one's code `after` was moved if it is linked. Null if it does not have the observation.
 */
export function codeBeside(first: Model, row: number, after: Code, other: Model, linked: boolean): number[] | null {
  const there = sameRow(first, row, other);
  if (there === null) return null;
  const code = other.code(there);
  return linked ? follow(matching(first, other).matches, first.code(row), after, code) : code;
}

/**
 * Move the code of another model as the first one's code moved from `before` to `after`: by as many
 * scores of the prior, times the sign of the correlation, and to the class that goes with the class.
 */
export function follow(matches: readonly Match[], before: Code, after: Code, code: Code): number[] {
  return matches.reduce<number[]>((moved, match) => followOne(match, before, after, moved), [...code]);
}

function followOne(match: Match, before: Code, after: Code, code: number[]): number[] {
  const { first, other } = match;
  if (first.variable.discrete) {
    const [from, to] = [classOf(first.variable, before), classOf(first.variable, after)];
    return from === to ? code : withClass(other.variable, code, match.classes[to]!);
  }
  if (before[first.column] === after[first.column]) return code;
  const quantiles = first.variable.quantiles[first.column - first.variable.columns[0]]!;
  const scores = scoreOf(quantiles, after[first.column]!) - scoreOf(quantiles, before[first.column]!);
  const there = other.variable.quantiles[other.column - other.variable.columns[0]]!;
  const score = scoreOf(there, code[other.column]!) + Math.sign(match.association) * scores;
  const moved = [...code];
  moved[other.column] = valueAt(there, Math.min(Math.max(score, -LIMIT), LIMIT));
  return moved;
}
