"""Command-line assignments to runs: choices, numbers, paths, and lists that mean several runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unweave import spec
from unweave.data import Data
from unweave.fitted import from_path
from unweave.run import Run

_LIST = re.compile(r"[\w.+-]+(,[\w.+-]+)+")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def runs_from(assignments: Sequence[str], base: dict[str, Any] | None = None) -> list[Run]:
    """The runs that assignments describe; a list or a range of values is one run each.

    >>> [(r.seed, r.objective.beta) for r in runs_from(["seed=0..1", "objective.beta=1,4"])]
    [(0, 1.0), (0, 4.0), (1, 1.0), (1, 4.0)]
    """
    choices = [_choices(assignment) for assignment in assignments]
    combinations = [itertools.chain(*each) for each in itertools.product(*choices)]
    return [spec.override(Run, combination, base) for combination in combinations]


def _choices(assignment: str) -> list[list[str]]:
    """The alternatives of one assignment, each as the assignments that it stands for."""
    path, sign, text = assignment.partition("=")
    if path == "data" and sign:
        return [_data(text)]
    span = _RANGE.fullmatch(text)
    if span and int(span[1]) > int(span[2]):
        raise ValueError(f"{path}: {text} is empty; write the smaller number first")
    if span:
        return [[f"{path}={n}"] for n in range(int(span[1]), int(span[2]) + 1)]
    if _LIST.fullmatch(text):
        return [[f"{path}={value}"] for value in text.split(",")]
    return [[assignment]]


def _data(text: str) -> list[str]:
    """`data=NAME` chooses a data set; `data=PATH` a file of arrays or a folder of images."""
    known = spec.members(Data)
    if text in known:
        return [f"data={text}"]
    if Path(text).exists():
        found = from_path(text)
        return [f"data={found.kind}", f"data.path={found.path}"]
    raise ValueError(
        f"data: {text!r} is neither a data set nor a file or folder that exists: "
        f"{spec.nearest(text, known)}"
    )
