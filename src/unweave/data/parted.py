"""Splits of data by their names: which there are, which one is taken, and others of the same data.

>>> from unweave.data import Arrays, HeldOut, Sampled, Shapes2D
>>> data = Sampled(Shapes2D(), (HeldOut({"shape": (2,)}),))
>>> splits_of(data), split_of(data), split_of(with_split(data, "held-out"))
(('rest', 'held-out'), 'rest', 'held-out')
>>> split_of(with_split(Arrays("x.npz"), "test"))
'test'
"""

from __future__ import annotations

import dataclasses
from typing import cast, get_args, get_type_hints

from unweave.data.parts import DataSplit
from unweave.data.sampling import Paired, Sampled, Whole
from unweave.data.ways import HeldOutSplit
from unweave.spec import from_json, to_json

AnySplit = DataSplit | HeldOutSplit
AnyData = Whole | Sampled | Paired


def splits_of(data: AnyData) -> tuple[str, ...]:
    """The splits that data have: those of their files, and what their ways leave and hold out."""
    if isinstance(data, Sampled):
        held = get_args(HeldOutSplit) if _of_ways(data) else ()
        return (*splits_of(data.world), *held)
    return get_args(get_type_hints(type(data)).get("split"))


def split_of(data: AnyData) -> str:
    """The split that data are: "train", "held-out of test", ...; "all" where they have none."""
    if isinstance(data, Sampled):
        inner = split_of(data.world)
        own = dict.fromkeys([*_of_ways(data), *([] if inner == "all" else [inner])])
        return " of ".join(own) or "all"
    return str(getattr(data, "split", "all"))


def with_split(data: AnyData, split: AnySplit) -> AnyData:
    """Another split of the same data; those that ways hold out of it are held out as before."""
    if split not in (known := splits_of(data)):
        what = data.world.kind if isinstance(data, Sampled) else data.kind
        there = f"has the splits {', '.join(known)}" if known else "has no splits"
        raise ValueError(
            f"{what} {there}, and {split!r} was asked for: files and published sets have all, "
            "train and others, and what was sampled by held-out or incomplete has rest and held-out"
        )
    if isinstance(data, Sampled) and split in get_args(HeldOutSplit):
        ways = [to_json(way) for way in data.ways]
        parted = [way | {"split": split} if "split" in way else way for way in ways]
        return from_json(Sampled, to_json(data) | {"ways": parted})
    if isinstance(data, Sampled):
        return dataclasses.replace(data, world=cast(Whole, with_split(data.world, split)))
    changed: AnyData = from_json(type(data), to_json(data) | {"split": split})
    return changed


def _of_ways(data: Sampled) -> list[str]:
    """The splits that the ways take."""
    return [str(split) for way in data.ways if (split := getattr(way, "split", None))]
