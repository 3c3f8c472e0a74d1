/** The code of a model beside the first one: the same observation, moved as the first one's sliders. */
import { matching, type Match } from "./matching";
import { classOf, LIMIT, scoreOf, valueAt, withClass, type Code, type Model } from "./model";
import { codeOf, type Origin } from "./origin";

/** The row of another model that has the same observation, or null. */
export function sameRow(first: Model, row: number, other: Model): number | null {
  if (first.data.data !== other.data.data) return null;
  return other.rowOf(first.indexOf(row));
}

/** The code of another model for the observation that the first one's code started from, if it has one. */
export function ownCode(first: Model, origin: Origin, other: Model): number[] | null {
  if (origin.kind !== "row")
    return origin.kind === "upload" ? (origin.upload.codes.get(other) ?? null) : null;
  const row = sameRow(first, origin.row, other);
  return row === null ? null : other.code(row);
}

/** That code, moved as the sliders of the first model moved its code to `after`. */
export function movedCode(
  first: Model,
  origin: Origin,
  after: Code,
  other: Model,
): number[] | null {
  const [before, own] = [codeOf(first, origin), ownCode(first, origin, other)];
  return before && own && follow(matching(first, other).matches, before, after, own);
}

/**
 * Move the code of another model as the first one's code moved from `before` to `after`: by as many
 * scores of the prior, times the sign of the correlation, and to the class that goes with the class.
 */
export function follow(matches: readonly Match[], before: Code, after: Code, code: Code): number[] {
  return matches.reduce<number[]>(
    (moved, match) => followOne(match, before, after, moved),
    [...code],
  );
}

function followOne(match: Match, before: Code, after: Code, code: number[]): number[] {
  const { first, other } = match;
  if (first.variable.discrete) {
    const [from, to] = [classOf(first.variable, before), classOf(first.variable, after)];
    const there = match.classes[to] ?? null;
    return from === to || there === null ? code : withClass(other.variable, code, there);
  }
  if (before[first.column] === after[first.column]) return code;
  const quantiles = first.variable.quantiles[first.column - first.variable.columns[0]]!;
  const scores =
    scoreOf(quantiles, after[first.column]!) - scoreOf(quantiles, before[first.column]!);
  const there = other.variable.quantiles[other.column - other.variable.columns[0]]!;
  const score = scoreOf(there, code[other.column]!) + Math.sign(match.association) * scores;
  const moved = [...code];
  moved[other.column] = valueAt(there, Math.min(Math.max(score, -LIMIT), LIMIT));
  return moved;
}
