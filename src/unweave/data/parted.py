"""Parts of data by their names: which there are, which one is taken, and others of the same data.

>>> from unweave.data import Arrays, HeldOut, Sampled, Shapes2D
>>> data = Sampled(Shapes2D(), (HeldOut({"shape": (2,)}),))
>>> parts_of(data), part_of(data), part_of(with_part(data, "held"))
(('rest', 'held'), 'rest', 'held')
>>> part_of(with_part(Arrays("x.npz"), "test"))
'test'
"""

from __future__ import annotations

import dataclasses
from typing import cast, get_args, get_type_hints

from unweave.data.parts import Part
from unweave.data.sampling import Paired, Sampled, Whole
from unweave.data.ways import WayPart
from unweave.spec import from_json, to_json

AnyPart = Part | WayPart
AnyData = Whole | Sampled | Paired


def parts_of(data: AnyData) -> tuple[str, ...]:
    """The parts that data have: those of their files, and what their ways leave and hold out."""
    if isinstance(data, Sampled):
        held = get_args(WayPart) if _of_ways(data) else ()
        return (*parts_of(data.world), *held)
    return get_args(get_type_hints(type(data)).get("part"))


def part_of(data: AnyData) -> str:
    """The part that data are, as "train", "held" or "held of test"; "all" where they have none."""
    if isinstance(data, Sampled):
        inner = part_of(data.world)
        own = dict.fromkeys([*_of_ways(data), *([] if inner == "all" else [inner])])
        return " of ".join(own) or "all"
    return str(getattr(data, "part", "all"))


def takes_all(data: AnyData) -> bool:
    """Whether data are all parts of the files they come from."""
    return getattr(data.world if isinstance(data, Sampled) else data, "part", None) == "all"


def with_part(data: AnyData, part: AnyPart) -> AnyData:
    """Another part of the same data; those that ways hold out of it are held out as before."""
    if part not in (known := parts_of(data)):
        what = data.world.kind if isinstance(data, Sampled) else data.kind
        there = f"has the parts {', '.join(known)}" if known else "has no parts"
        raise ValueError(
            f"{what} {there}, and {part!r} was asked for: files and published sets have all, train "
            "and others, and what was sampled by held-out or incomplete has rest and held"
        )
    if isinstance(data, Sampled) and part in get_args(WayPart):
        ways = [to_json(way) for way in data.ways]
        parted = [way | {"part": part} if "part" in way else way for way in ways]
        return from_json(Sampled, to_json(data) | {"ways": parted})
    if isinstance(data, Sampled):
        return dataclasses.replace(data, world=cast(Whole, with_part(data.world, part)))
    changed: AnyData = from_json(type(data), to_json(data) | {"part": part})
    return changed


def _of_ways(data: Sampled) -> list[str]:
    """The parts that the ways take."""
    return [str(part) for way in data.ways if (part := getattr(way, "part", None))]
