"""Find values so extreme that a linear scale leaves all others nearly equal."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unweave.data.files.interpretation import Layout, group_names
from unweave.data.files.rows import BLOCK, Array, Rows, blocks, row_bytes
from unweave.data.files.statistics import Floats
from unweave.data.files.tables import join_columns
from unweave.data.scaling import Scaling

_FACTOR = 100  # a gap between deviations that leaves the smaller ones in a hundredth of the range
_SHARE = 100  # extreme values are in at most one of this many rows
_MOST = 100  # and in at most this many rows
_SAMPLE = 1001  # rows whose medians are taken as those of all
_LEAST = 10  # rows of the sample that have to deviate from the median to judge by
_LISTED = 3


class Extreme(NamedTuple):
    """One extreme value: its row, the channel or column, and the place in a channel."""

    row: int
    group: int
    place: int
    value: float


class Extremes(NamedTuple):
    """The first extreme values, how many there are in how many rows, and the gap to the others."""

    first: list[Extreme]
    values: int
    rows: int
    gap: float


_NONE = Extremes([], 0, 0, 0.0)


def find_extremes(rows: Rows, layout: Layout, scaling: Scaling) -> Extremes:
    """Find values that are extreme among those that share a scale.

    The deviation of a row is that of its value furthest from the median of its column. Some rows
    are extreme if they are few, and if their deviations are larger than all others by a factor of
    at least 100 (times the root of the number of scales, each of which may have such a gap by
    chance), and by more than the square of the factor between the next one and a typical one. So
    heavy tails, in which deviations grow by large factors anyway, are not extreme. Sparse values
    are compared with others that are not the median; with fewer than ten of these, nothing is said.
    Nor is it if every column is extreme in other rows, as sharp peaks are, unless these values are
    equal, as are those that stand for missing ones, such as -9999.
    """
    if scaling.method == "bytes" or rows.shape[0] < 2:
        return _NONE
    return _Search(rows, layout, scaling).find()


class _Search:
    """Passes over the rows of an array, for `find_extremes`."""

    def __init__(self, rows: Rows, layout: Layout, scaling: Scaling) -> None:
        self.rows, self.layout, self.scaling = rows, layout, scaling
        self.common = scaling.method not in ("standardise", "percentile")  # one scale for all
        count = rows.shape[0]
        self.most = min(_MOST, max(1, count // _SHARE))  # rows that may be extreme
        size = min(count, _SAMPLE, max(_LEAST, BLOCK // max(1, row_bytes(rows))))
        self.sample = self._values(rows.take(np.linspace(0, count - 1, size).astype(np.int64)))
        self.centre = np.median(self.sample, axis=0)

    def find(self) -> Extremes:
        """Find the extreme values."""
        with np.errstate(all="ignore"):
            threshold, gap = self._threshold()
            if not np.isfinite(threshold).any():
                return _NONE
            first, count, affected, different = list[Extreme](), 0, 0, set[float]()
            for start, block in blocks(self.rows):
                values = self._values(block)
                extreme = np.abs(values - self.centre) >= threshold[:, None]
                count, affected = count + extreme.sum(), affected + extreme.any((1, 2)).sum()
                different.update(values[extreme][:_MOST].tolist())
                places = np.argwhere(extreme)[: _LISTED - len(first)].tolist()
                first += [Extreme(start + r, g, p, float(values[r, g, p])) for r, g, p in places]
        few = affected <= self.most
        return (
            Extremes(first, int(count), int(affected), gap) if few or len(different) == 1 else _NONE
        )

    def _threshold(self) -> tuple[Floats, float]:
        """Return the least deviation that is extreme in each group, or infinity, and the gap."""
        deviations = self._deviations(self.sample)
        deviating = np.where(deviations > 0, deviations, np.nan)
        enough = np.isfinite(deviating).sum(0) >= _LEAST
        typical = np.full(len(enough), np.nan)
        typical[enough] = np.nanmedian(deviating[:, enough], axis=0)
        largest = self._largest(self.most + 1)
        above, below = largest[:-1], largest[1:]
        least = np.maximum(_FACTOR * np.sqrt(len(typical)), np.square(below / typical))
        gaps = np.where((below > 0) & enough & (above > least * below), above / below, 0)
        last = len(gaps) - 1 - (gaps[::-1] > 0).argmax(0)
        chosen = np.take_along_axis(gaps, last[None], 0)[0]
        threshold = np.where(chosen > 0, np.take_along_axis(above, last[None], 0)[0], np.inf)
        smallest = chosen[chosen > 0].min(initial=np.inf)
        return np.broadcast_to(threshold, len(self.centre)), float(smallest)

    def _largest(self, count: int) -> Floats:
        """Return the largest deviations in each group, in descending order, (count, groups)."""
        largest = None
        for _, block in blocks(self.rows):
            here = self._deviations(self._values(block))
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

    def _deviations(self, values: Array) -> Array:
        """Return the largest deviation of each row in each group that has a scale of its own."""
        deviations: Array = np.abs(values - self.centre).max(2)
        return deviations.max(1, keepdims=True) if self.common else deviations


def describe_extremes(
    extremes: Extremes, layout: Layout, value_names: Sequence[str], row_names: Sequence[str]
) -> list[str]:
    """Say where extreme values are, what they do to the others, and what to do about them."""
    if not extremes.values:
        return []
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
        listed += f"; ... ({extremes.values:,} values in {extremes.rows:,} observations)"
    what = "an extreme value leaves" if one else "extreme values leave"
    it, them = ("it is", "it") if one else ("they are", "them")
    remove = f"remove the observation{'s' * (extremes.rows > 1)}"
    columns = list(dict.fromkeys(str(names[each.group]) for each in extremes.first))
    if value_names and extremes.values == len(extremes.first):
        remove += f", or leave the column{'s' * (len(columns) > 1)} out with data.ignore="
        remove += join_columns(columns)
    return [
        f"{what} all others nearly equal after scaling: {listed}; {it} at least "
        f"{extremes.gap:.0e} times as far from the median as any other: correct {them}, {remove}"
    ]
