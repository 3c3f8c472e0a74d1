"""Name the splits of a data spec, and switch to another split of the same data.

>>> from unweave.data import Arrays, HeldOut, Selected, Shapes2D
>>> data = Selected(Shapes2D(), (HeldOut({"shape": (2,)}),))
>>> available_splits(data), split_of(data), split_of(with_split(data, "held-out"))
(('rest', 'held-out'), 'rest', 'held-out')
>>> split_of(with_split(Arrays("x.npz"), "test"))
'test'
"""

import dataclasses
from typing import cast, get_args, get_type_hints

from unweave.core.hints import suggestion
from unweave.core.spec import from_json, to_json
from unweave.data.files.arrays import InMemory
from unweave.data.pairs import Paired
from unweave.data.random_split import DataSplit
from unweave.data.selected import Selected
from unweave.data.selection import HeldOutSplit
from unweave.data.sources import SourceData

AnySplit = DataSplit | HeldOutSplit
AnyData = SourceData | Selected | Paired


def available_splits(data: AnyData) -> tuple[str, ...]:
    """Return the splits of a data spec: those of its files, and those of its selections."""
    if isinstance(data, Selected):
        held_out = get_args(HeldOutSplit) if _selection_splits(data) else ()
        return (*available_splits(data.source), *held_out)
    return get_args(get_type_hints(type(data)).get("split"))


def split_of(data: AnyData) -> str:
    """Return the split of a data spec: "train", "held-out of test", ...; "all" if it has none."""
    if isinstance(data, Selected):
        inner = split_of(data.source)
        own = dict.fromkeys([*_selection_splits(data), *([] if inner == "all" else [inner])])
        return " of ".join(own) or "all"
    return str(getattr(data, "split", "all"))


def takes_all(data: AnyData) -> bool:
    """Return whether a data spec uses every split of its files."""
    return getattr(data.source if isinstance(data, Selected) else data, "split", None) == "all"


def with_split(data: AnyData, split: AnySplit) -> AnyData:
    """Return another split of the same data; held-out combinations stay held out."""
    if split not in (known := available_splits(data)):
        source = data.source if isinstance(data, Selected) else data
        available = f"has the splits {', '.join(known)}" if known else "has no splits"
        raise ValueError(
            f"{getattr(source, 'kind', type(source).__name__)} {available}, got {split!r}: "
            f"{suggestion(split, known)}Files and published datasets have all, train and others, "
            "and a selection by held-out or incomplete has rest and held-out"
        )
    if isinstance(data, Selected) and split in get_args(HeldOutSplit):
        select = [to_json(selection) for selection in data.select]
        changed = [each | {"split": split} if "split" in each else each for each in select]
        return from_json(Selected, to_json(data) | {"select": changed})
    if isinstance(data, Selected):
        return dataclasses.replace(data, source=cast(SourceData, with_split(data.source, split)))
    other: AnyData = from_json(type(data), to_json(data) | {"split": split})
    if isinstance(data, InMemory) and isinstance(other, InMemory) and data.bound is not None:
        other.bind(data.bound)
    return other


def on_split(data: AnyData, name: str) -> AnyData:
    """Return data on a split as `split_of` names it, such as "rest of train"."""
    for split in name.split(" of "):
        data = with_split(data, cast(AnySplit, split)) if split in available_splits(data) else data
    return data


def _selection_splits(data: Selected) -> list[str]:
    return [str(split) for each in data.select if (split := getattr(each, "split", None))]
