"""Find values so extreme that a linear scale leaves all others nearly equal."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.core.hints import count_noun, join_words
from unweave.data.dataset import ExtremeValues
from unweave.data.files.interpretation import Layout, group_names
from unweave.data.files.rows import Array, Rows, blocks, sample
from unweave.data.files.statistics import Floats
from unweave.data.files.tables import join_columns
from unweave.data.scaling import Scaling

_FACTOR = 100  # a gap between deviations that leaves the smaller ones in a hundredth of the range
_SHARE = 100  # extreme values are in at most one of this many rows
_MOST = 100  # and in at most this many rows
_LEAST = 10  # rows of the sample that have to deviate from the median to judge by
_REPEATS = 3  # times that a value has to repeat to be extreme in any number of rows
_PIXELS = 1000  # in images, in which single pixels saturate, at least one of so many values
_LISTED = 3


class Extreme(NamedTuple):
    """One extreme value: its row, the channel or column, and the place in a channel."""

    row: int
    group: int
    place: int
    value: float


class Extremes(NamedTuple):
    """The first extreme values, how many there are in how many rows, and the gap to the others.

    `share` is that of the scales that they affect, and `code` the value if only one repeats, as
    codes for missing values do.
    """

    first: list[Extreme]
    values: int
    rows: int
    gap: float
    share: float
    code: float | None = None


_NONE = Extremes([], 0, 0, 0.0, 0.0)


def find_extremes(
    rows: Rows, layout: Layout, scaling: Scaling, first: NDArray[np.int64] | None = None
) -> Extremes:
    """Find values that are extreme among those that share a scale.

    The deviation of a row is that of its value furthest from the median of its column. Some rows
    are extreme if they are few, and if their deviations are larger than all others by a factor of
    at least 100 (times the root of the number of scales, each of which may have such a gap by
    chance), and by more than the square of the factor between the next one and a typical one. So
    heavy tails, in which deviations grow by large factors anyway, are not extreme. Sparse values
    are compared with others that are not the median; with fewer than ten of these, nothing is said.
    Nor is it if every column is extreme in other rows, as sharp peaks are, unless these values are
    equal.

    One value that repeats, as -9999 for missing values, may be in many rows: it is extreme if it is
    further from all other values than 100 times their largest deviation, and is less than half of
    the values. It has to repeat in rows that are not copies of each other: `first` has the number
    of the first copy of each row, as `first_copies` returns it.
    """
    if scaling.method == "bytes" or rows.shape[0] < 2:
        return _NONE
    with np.errstate(all="ignore"):
        return _Search(rows, layout, scaling, first).find()


class _Search:
    """Passes over the rows of an array, for `find_extremes`."""

    def __init__(
        self, rows: Rows, layout: Layout, scaling: Scaling, first: NDArray[np.int64] | None
    ) -> None:
        self.rows, self.layout, self.scaling = rows, layout, scaling
        self.distinct = None if first is None else first == np.arange(len(first))
        self.common = scaling.method not in ("standardise", "percentile")  # one scale for all
        count = rows.shape[0]
        self.most = min(_MOST, max(1, count // _SHARE))  # rows that may be extreme
        self.sample = self._values(sample(rows))
        self.centre = np.median(self.sample, axis=0)

    def find(self) -> Extremes:
        """Find the extreme values."""
        threshold, gap = self._threshold()
        repeated, times = self._repeated()
        found = self._collect(threshold, repeated, min(gap, times))
        return found or self._collect(np.full_like(repeated, np.inf), repeated, times) or _NONE

    def _collect(self, threshold: Floats, repeated: Floats, gap: float) -> Extremes | None:
        """Find values that repeat, or reach the threshold; None if too many rows reach it."""
        if not (np.isfinite(threshold) | np.isfinite(repeated)).any():
            return _NONE
        first, count, affected, single, different = list[Extreme](), 0, 0, 0, set[float]()
        groups = np.zeros(len(repeated), np.bool_)
        for start, block in blocks(self.rows):
            values = self._values(block)
            equal = values == repeated[:, None]
            others = (np.abs(values - self.centre) >= threshold[:, None]) & ~equal
            extreme = equal | others
            count, affected = count + extreme.sum(), affected + extreme.any((1, 2)).sum()
            groups |= extreme.any((0, 2))
            single += others.any((1, 2)).sum()
            different.update(values[others][:_MOST].tolist())
            places = np.argwhere(extreme)[: _LISTED - len(first)].tolist()
            first += [Extreme(start + r, g, p, float(values[r, g, p])) for r, g, p in places]
        if single > self.most and len(different) > 1:
            return None
        share = 1.0 if self.common and count else float(groups.mean())
        codes = np.unique(repeated[groups])
        code = float(codes[0]) if not single and len(codes) == 1 else None
        return Extremes(first, int(count), int(affected), gap, share, code)

    def _threshold(self) -> tuple[Floats, float]:
        """Return the least deviation that is extreme in each group, or infinity, and the gap."""
        typical = self._typical(self.sample, self.centre)
        largest = self._largest(self.most + 1)
        above, below = largest[:-1], largest[1:]
        least = np.maximum(_FACTOR * np.sqrt(len(typical)), np.square(below / typical))
        gaps = np.where((below > 0) & (above > least * below), above / below, 0)
        last = len(gaps) - 1 - (gaps[::-1] > 0).argmax(0)
        chosen = np.take_along_axis(gaps, last[None], 0)[0]
        threshold = np.where(chosen > 0, np.take_along_axis(above, last[None], 0)[0], np.inf)
        smallest = chosen[chosen > 0].min(initial=np.inf)
        return np.broadcast_to(threshold, len(self.centre)), float(smallest)

    def _repeated(self) -> tuple[Floats, float]:
        """Return the extreme value of each group that repeats, or NaN, and the gap."""
        value = self._furthest()[:, None]
        equal = self.sample == value
        whole = equal.all(0)  # the value is all that there is
        centre = np.nanmedian(np.where(equal & ~whole, np.nan, self.sample), axis=0)
        typical = self._typical(np.where(equal, centre, self.sample), centre)
        if not (np.abs(value - centre) > _FACTOR * typical[:, None]).any():
            return np.full(len(value), np.nan), np.inf
        count, below = np.zeros(len(value), np.int64), np.zeros(len(typical))
        for start, block in blocks(self.rows):
            values = self._values(block)
            equal = values == value
            mine = (
                slice(None) if self.distinct is None else self.distinct[start : start + len(block)]
            )
            count += equal[mine].sum((0, 2))
            others = np.where(equal, centre, values)
            below = np.maximum(below, self._deviations(others, centre).max(0))
        here = ~whole & (count > 0)[:, None]
        distance = np.where(here, np.abs(value - centre), np.inf).min(1)
        cells = self.rows.shape[0] * self.centre.size // len(below)
        if self.common:
            distance, count = distance.min(keepdims=True), count.sum(keepdims=True)
        least = max(_REPEATS, cells // _PIXELS) if self.layout.is_image else _REPEATS
        times = distance / below
        found = (times > np.maximum(_FACTOR, np.square(below / typical))) & np.isfinite(times)
        found &= (count >= least) & (2 * count < cells)
        smallest = times[found].min(initial=np.inf)
        return np.where(found, value[:, 0], np.nan), float(smallest)

    def _furthest(self) -> Floats:
        """Return the value that is furthest from the median of its column in each group."""
        furthest, distance = np.zeros((2, len(self.centre)))
        for _, block in blocks(self.rows):
            values = self._values(block)
            flat = values.swapaxes(0, 1).reshape(len(self.centre), -1)
            far = np.abs(values - self.centre).swapaxes(0, 1).reshape(flat.shape)
            place = far.argmax(1)[:, None]
            here = np.take_along_axis(far, place, 1)[:, 0]
            values = np.take_along_axis(flat, place, 1)[:, 0]
            furthest = np.where(here > distance, values, furthest)
            distance = np.maximum(here, distance)
        if self.common:
            furthest[:] = furthest[distance.argmax()]
        return furthest

    def _typical(self, values: Array, centre: Array) -> Floats:
        """Return the median deviation of rows that deviate; NaN if these are few."""
        deviations = self._deviations(values, centre)
        deviating = np.where(deviations > 0, deviations, np.nan)
        enough = np.isfinite(deviating).sum(0) >= _LEAST
        typical = np.full(len(enough), np.nan)
        typical[enough] = np.nanmedian(deviating[:, enough], axis=0)
        return typical

    def _largest(self, count: int) -> Floats:
        """Return the largest deviations in each group, in descending order, (count, groups)."""
        largest = None
        for _, block in blocks(self.rows):
            here = self._deviations(self._values(block), self.centre)
            both = here if largest is None else np.concatenate([largest, here])
            largest = np.partition(both, -min(count, len(both)), axis=0)[-count:]
        assert largest is not None
        return -np.sort(-largest, axis=0).astype(np.float64)

    def _values(self, block: Array) -> Array:
        """Return rows as values (n, groups, values); percentiles clip them."""
        values = self.layout.by_channel(block)
        values = values.astype(np.result_type(values.dtype, np.float32), copy=False)
        if self.scaling.method == "percentile":
            low = np.array(self.scaling.offset)[:, None]
            values = values.clip(low, low + np.array(self.scaling.width)[:, None])
        return values

    def _deviations(self, values: Array, centre: Array) -> Array:
        """Return the largest deviation of each row in each group that has a scale of its own."""
        deviations: Array = np.abs(values - centre).max(2)
        return deviations.max(1, keepdims=True) if self.common else deviations


def describe_extremes(
    extremes: Extremes,
    layout: Layout,
    scaling: Scaling,
    value_names: Sequence[str],
    row_names: Sequence[str],
    in_memory: bool,
) -> ExtremeValues | None:
    """Say where extreme values are, what they do to the others, and what to do about them.

    `in_memory` says whether a table is not a file, some of whose columns can be ignored.
    """
    if not extremes.values:
        return None
    names = group_names(layout.shape, value_names)
    column = "column " * bool(value_names)

    def describe(each: Extreme) -> str:
        name = f" ({row_names[each.row]})" if row_names else ""
        where = f"{column}{names[each.group]} of observation {each.row}{name}"
        if layout.is_image:
            where += " at row {} and column {}".format(*divmod(each.place, layout.shape[2]))
        return f"{each.value:g} in {where}"

    one = extremes.values == 1
    listed = "; ".join(map(describe, extremes.first))
    if extremes.values > len(extremes.first):
        observations = count_noun(extremes.rows, "observation")
        listed += f"; ... ({extremes.values:,} values in {observations})"
    what = "an extreme value" if one else "extreme values"
    if scaling.method in ("none", "counts"):
        does = f"outweigh{'s' * one} all others"
    else:
        does = f"leave{'s' * one} all others nearly equal after scaling"
    it, do = ("it is", ["correct it"]) if one else ("they are", ["correct them"])
    code = ""
    if extremes.code is not None:
        code, do = f"; {extremes.code:g} seems to stand for missing values", ["fill them in"]
    do.append(f"remove the observation{'s' * (extremes.rows > 1)}")
    columns = list(dict.fromkeys(str(names[each.group]) for each in extremes.first))
    if value_names and extremes.values == len(extremes.first):
        out = f"leave the column{'s' * (len(columns) > 1)} out"
        do.append(out + f" with data.ignore={join_columns(columns)}" * (not in_memory))
    note = (
        f"{what} {does}: {listed}; {it} at least {float(f'{extremes.gap:.0e}'):g} times as far "
        f"from the median as any other{code}: {join_words(do, 'or')}"
    )
    return ExtremeValues(note, extremes.share)
