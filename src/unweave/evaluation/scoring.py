"""Score stored runs in this process or in others: what is asked for, and what comes back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, cast

from pydantic import Field, NonNegativeInt

from unweave.core import files, spec as specs
from unweave.core.notes import capture_warnings
from unweave.core.parts import own_modules
from unweave.core.spec import Count, Seed, spec
from unweave.data.splits import AnySplit, with_split
from unweave.evaluation.evaluate import map_tables
from unweave.evaluation.loading import load_each
from unweave.evaluation.model import Codes, FittedModel
from unweave.metrics import Scores, Table, evaluate as evaluate_table
from unweave.metrics.registry import MetricChoice
from unweave.metrics.table_npz import table_bytes
from unweave.training.leases import FolderInUse
from unweave.training.remote_stores import store_root
from unweave.training.store import RunFolder


class TableScores(NamedTuple):
    """The scores of a table, the warnings, and why metrics could not be computed."""

    scores: Scores
    warned: list[Warning]
    problems: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        warned = [str(warning) for warning in self.warned]
        return {"scores": self.scores.to_json(), "warned": warned, "problems": self.problems}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned."""
        warned: list[Warning] = [UserWarning(text) for text in content["warned"]]
        return cls(Scores.from_json(content["scores"]), warned, content["problems"])


def unscored(why: str) -> dict[str, Any]:
    """Return what `ScoringTask.run` returns for a run that could not be scored."""
    return {**TableScores(Scores({}), [], [why]).to_json(), "stored": False}


def try_to_score(
    function: Callable[..., Scores], metrics: Sequence[MetricChoice] | None, table: Table
) -> TableScores:
    """Score a table; if that fails, try each named metric on its own."""
    try:
        return TableScores(*capture_warnings(partial(function, metrics=metrics), table), [])
    except ValueError as error:
        if metrics is None or len(metrics) < 2:
            return TableScores(Scores({}), [], [str(error)])
    each = [try_to_score(function, [metric], table) for metric in metrics]
    return TableScores(
        Scores({key: score for part in each for key, score in part.scores.items()}),
        [warning for part in each for warning in part.warned],
        [problem for part in each for problem in part.problems],
    )


@spec
class ScoringTask:
    """Stored runs to score, and how: everything that a worker on another machine needs."""

    folders: tuple[str, ...]
    """Folders of the runs, or their URLs."""
    metrics: tuple[str, ...] | None = None
    """Names of metrics of a table; None for all that apply and are quick."""
    rows: Count = 10_000
    """Observations to encode."""
    codes: Codes = "mean"
    """Codes to score."""
    split: str | None = None
    """Split to score on; None for the one that a run was trained on."""
    data: str | None = None
    """Where the data are now, if they were moved."""
    device: str = "auto"
    """Device to encode on."""
    seed: Seed = 0
    """Seed of the metrics."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of every metric, such as an interval."""
    threads: NonNegativeInt = 0
    """CPU threads of a worker; 0 uses all of its cores."""
    imports: tuple[str, ...] = ()
    """Modules of users' own parts."""

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {"imports": self.imports, "scoring": specs.to_json(self)}

    @property
    def paths(self) -> dict[Path, str]:
        """The folders by the paths at which this process finds them."""
        return {_local(folder): folder for folder in self.folders}

    def run(self) -> dict[str, dict[str, Any]]:
        """Score the runs here; return the scores, warnings and problems of each folder.

        The table of a run is stored in its folder, if it is not in use.
        """
        given: dict[str, Any] = {"data": self.data, "split": self.split, "device": self.device}
        paths = self.paths
        for path in paths:
            files.disk.pull(path)  # another process may have trained it
        models, reasons = load_each(paths, **given)
        failed = {paths[path]: unscored(why) for path, why in reasons.items()}
        scored = {paths[m.folder]: each for m, each in self._score(models) if m.folder is not None}
        return failed | scored

    def _score(self, models: Sequence[FittedModel]) -> Iterator[tuple[FittedModel, dict[str, Any]]]:
        function = partial(evaluate_table, seed=self.seed, **self.options)
        names = None if self.metrics is None else list(self.metrics)
        score = partial(try_to_score, function, names)
        for number, table, result in map_tables(models, self.rows, score, codes=self.codes):
            model, stored = models[number], True
            folder = RunFolder(model.folder or Path())
            try:
                with folder.lock():
                    folder.write_table(model.split, partial(table_bytes, table))
            except FolderInUse as error:
                stored = False
                result.warned.append(UserWarning(f"scores are not stored: {error}"))
            yield model, {**result.to_json(), "stored": stored}


class Scorer(Protocol):
    """Scores stored runs wherever its workers are."""

    def score(self, task: ScoringTask) -> Iterator[dict[str, dict[str, Any]]]:
        """Yield what `ScoringTask.run` returns for parts of the folders, as they are scored."""


def map_tables_on(
    on: Scorer, models: Sequence[FittedModel], task: ScoringTask
) -> Iterator[tuple[int, Table | None, TableScores]]:
    """Score models in other processes; yield the index of each, its table, and its scores.

    The folders of the task are those of the models, each of which must have one. A model that could
    not be encoded, or whose folder is in use, has no table.
    """
    if not models:
        return
    places = [files.disk.name(model.folder.absolute()) for model in models if model.folder]
    if len(places) < len(models):
        raise ValueError("models in memory cannot be scored by other processes: give a store")
    numbers = {place: number for number, place in enumerate(places)}
    modules = own_modules(model.run for model in models)
    task = replace(task, folders=tuple(numbers), imports=tuple(modules))
    for scored in on.score(task):
        for place, content in scored.items():
            model, result = models[numbers[place]], TableScores.from_json(content)
            table = _read_table(model) if content["stored"] else None
            if content["stored"] and table is None:
                why = f"its codes do not appear in {place}: use a store that all workers share"
                result = TableScores(Scores({}), [], [why])
            yield numbers[place], table, result


def score_on(
    on: Scorer,
    models: Sequence[FittedModel],
    metrics: Sequence[Any] | None,
    options: Mapping[str, Any],
    **fields: Any,
) -> Iterator[tuple[int, Table, tuple[Scores, list[Warning]]]]:
    """Score models in other processes; yield scores and warnings like `map_tables`."""
    if any(not isinstance(metric, str) for metric in metrics or ()):
        raise ValueError(
            "expected metrics by name, because other processes compute them, got a function: give "
            "its name, module:function"
        )
    names = None if metrics is None else tuple(metrics)
    for split in dict.fromkeys(map(_other_split, models)):
        task = ScoringTask(folders=(), metrics=names, options={**options}, split=split, **fields)
        numbers = [number for number, model in enumerate(models) if _other_split(model) == split]
        chosen = [models[number] for number in numbers]
        for place, table, result in map_tables_on(on, chosen, task):
            if result.problems or table is None:
                folder = chosen[place].folder
                raise ValueError(f"{folder}: {[*result.problems, *result.warned][0]}")
            yield numbers[place], table, (result.scores, result.warned)


def _other_split(model: FittedModel) -> str | None:
    """Return the split that a model is on, None for the one that it was trained on.

    Raise a ValueError for other data, which other processes do not know.
    """
    trained_on = model.run.data
    if model.data == trained_on:
        return None
    if model.data != with_split(trained_on, cast(AnySplit, model.split)):
        raise ValueError(
            "models that were loaded with data= cannot be scored by other processes: use "
            "`unweave evaluate --data`, which tells them where the data are"
        )
    return model.split


def _read_table(model: FittedModel) -> Table | None:
    """Read the table of a model that another process has stored; None if it does not appear."""
    folder = RunFolder(model.folder or Path())
    path = folder.table_path(model.split)
    if not files.appears(path):
        return None
    files.disk.pull(folder.path)
    files.disk.fetch(path)
    return Table.load(path)


def _local(place: str) -> Path:
    """Return where this process finds a folder or a URL."""
    root, _, name = place.rpartition("/")
    return store_root(root, refresh=False) / name if "://" in root else Path(place)
