"""Presets: the run of an experiment of a paper, and the grid of runs around it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass

from unweave.core import spec
from unweave.data import PublishedSpec
from unweave.training.overrides import runs_from
from unweave.training.run import Run

Value = int | float | str
Grid = Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True)
class Preset:
    """An experiment of a paper: one run at its main setting, and the grid that it belongs to.

    `grid` maps fields of the run, as dotted paths, to the values that the paper tried. `notes` list
    what the paper leaves open or contradicts, and what the preset does.

    >>> from unweave.presets import preset
    >>> kim = preset("kim2018/shapes2d-factor-vae")
    >>> kim.arguments()
    ['objective.gamma=10,20,30,35,40,100', 'seed=0..9']
    >>> len(kim.runs()), len(kim.runs(["objective.gamma=35", "seed=0..2"]))
    (60, 3)
    """

    name: str  # paper/experiment
    title: str
    source: str  # where the paper describes it, as "[Kim2018] app. A"
    run: Run
    grid: Grid = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """The paper's key in lower case, such as kim2018."""
        return self.name.partition("/")[0]

    @property
    def download(self) -> str | None:
        """The dataset to download before training; None if the data are generated."""
        return _published(self.run.data)

    @property
    def count(self) -> int:
        """How many runs the grid has."""
        return math.prod(len(values) for values in self.grid.values())

    def arguments(self, assignments: Iterable[str] = ()) -> list[str]:
        """Return the arguments of `unweave train` for the grid, with some fields overridden.

        An assignment replaces the grid's values of that field and of the fields inside it.
        """
        overrides = list(assignments)
        fixed = tuple(f"{assignment.partition('=')[0]}." for assignment in overrides)
        varied = [path for path in self.grid if not f"{path}.".startswith(fixed)]
        return [
            *(_argument(path, self.grid[path]) for path in sorted(varied, key="seed".__eq__)),
            *overrides,
        ]

    def runs(self, assignments: Iterable[str] = ()) -> list[Run]:
        """Return the runs of the grid, seeds varying fastest, with some fields overridden.

        Assignments are those of the command line, such as "steps=1000" or "seed=0..2".
        """
        return runs_from(self.arguments(assignments), spec.to_json(self.run))


def _published(data: object) -> str | None:
    """Return the kind of the published dataset that data are, or are made from."""
    if isinstance(data, PublishedSpec):
        return str(data.kind)
    names = [each.name for each in fields(data)] if is_dataclass(data) else []
    return next(filter(None, (_published(getattr(data, name)) for name in names)), None)


def _argument(path: str, values: tuple[Value, ...]) -> str:
    """Write a field and its values as an argument of the command line."""
    first, last = values[0], values[-1]
    if isinstance(first, int) and len(values) > 2 and values == tuple(range(first, int(last) + 1)):
        return f"{path}={first}..{last}"
    return f"{path}={','.join(str(value) for value in values)}"
