"""Splits of data by their names: which there are, which one is taken, and others of the same data.

>>> from unweave.data import Arrays, HeldOut, Selected, Shapes2D
>>> data = Selected(Shapes2D(), (HeldOut({"shape": (2,)}),))
>>> splits_of(data), split_of(data), split_of(with_split(data, "held-out"))
(('rest', 'held-out'), 'rest', 'held-out')
>>> split_of(with_split(Arrays("x.npz"), "test"))
'test'
"""

from __future__ import annotations

import dataclasses
from typing import cast, get_args, get_type_hints

from unweave.core.spec import from_json, to_json
from unweave.data.parts import DataSplit
from unweave.data.sampling import Paired, Selected, Whole
from unweave.data.selection import HeldOutSplit

AnySplit = DataSplit | HeldOutSplit
AnyData = Whole | Selected | Paired


def splits_of(data: AnyData) -> tuple[str, ...]:
    """The splits that data have: those of their files, and what their ways leave and hold out."""
    if isinstance(data, Selected):
        held = get_args(HeldOutSplit) if _of_ways(data) else ()
        return (*splits_of(data.source), *held)
    return get_args(get_type_hints(type(data)).get("split"))


def split_of(data: AnyData) -> str:
    """The split that data are: "train", "held-out of test", ...; "all" where they have none."""
    if isinstance(data, Selected):
        inner = split_of(data.source)
        own = dict.fromkeys([*_of_ways(data), *([] if inner == "all" else [inner])])
        return " of ".join(own) or "all"
    return str(getattr(data, "split", "all"))


def takes_all(data: AnyData) -> bool:
    """Whether data are all splits of the files they come from."""
    return getattr(data.source if isinstance(data, Selected) else data, "split", None) == "all"


def with_split(data: AnyData, split: AnySplit) -> AnyData:
    """Another split of the same data; those that ways hold out of it are held out as before."""
    if split not in (known := splits_of(data)):
        what = data.source.kind if isinstance(data, Selected) else data.kind
        there = f"has the splits {', '.join(known)}" if known else "has no splits"
        raise ValueError(
            f"{what} {there}, and {split!r} was asked for: files and published sets have all, "
            "train and others, and a selection by held-out or incomplete has rest and held-out"
        )
    if isinstance(data, Selected) and split in get_args(HeldOutSplit):
        ways = [to_json(way) for way in data.select]
        parted = [way | {"split": split} if "split" in way else way for way in ways]
        return from_json(Selected, to_json(data) | {"select": parted})
    if isinstance(data, Selected):
        return dataclasses.replace(data, source=cast(Whole, with_split(data.source, split)))
    changed: AnyData = from_json(type(data), to_json(data) | {"split": split})
    return changed


def _of_ways(data: Selected) -> list[str]:
    """The splits that the ways take."""
    return [str(split) for way in data.select if (split := getattr(way, "split", None))]
