"""Score stored runs in this process or in others: what is asked for, and what comes back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from pydantic import Field, NonNegativeInt

from unweave.core import spec as specs
from unweave.core.notes import capture_warnings
from unweave.core.parts import import_module, own_parts
from unweave.core.spec import Count, Seed, spec
from unweave.evaluation.evaluate import map_tables
from unweave.evaluation.loading import load_each
from unweave.evaluation.model import Codes, FittedModel
from unweave.metrics import Scores, Table, evaluate as evaluate_table
from unweave.metrics.registry import MetricChoice
from unweave.metrics.table_npz import table_bytes
from unweave.training.leases import FolderInUse
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


def try_to_score(
    function: Callable[..., Scores], metrics: Sequence[MetricChoice] | None, table: Table
) -> TableScores:
    """Score a table; if that fails, score it by each metric that was named alone."""
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
    """Folders of the runs."""
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

    def run(self) -> dict[str, dict[str, Any]]:
        """Score the runs here; return the scores, warnings and problems of each folder.

        The table of a run is stored in its folder.
        """
        for module in self.imports:
            import_module(module)
        given: dict[str, Any] = {"data": self.data, "split": self.split, "device": self.device}
        models, reasons = load_each(map(Path, self.folders), **given)
        failed = {str(p): TableScores(Scores({}), [], [why]) for p, why in reasons.items()}
        scored = failed | {str(model.folder): each for model, each in self._score(models)}
        return {folder: each.to_json() for folder, each in scored.items()}

    def _score(self, models: Sequence[FittedModel]) -> Iterator[tuple[FittedModel, TableScores]]:
        function = partial(evaluate_table, seed=self.seed, **self.options)
        names = None if self.metrics is None else list(self.metrics)
        score = partial(try_to_score, function, names)
        for number, table, result in map_tables(models, self.rows, score, codes=self.codes):
            folder = RunFolder(models[number].folder or Path())
            try:
                with folder.lock():
                    folder.write_table(models[number].split, partial(table_bytes, table))
            except FolderInUse as error:
                result = TableScores(Scores({}), [], [str(error)])
            yield models[number], result


class Scorer(Protocol):
    """Scores stored runs wherever its workers are."""

    def score(self, task: ScoringTask) -> Iterator[dict[str, dict[str, Any]]]:
        """Yield what `ScoringTask.run` returns for parts of the folders, as they are scored."""


def map_tables_on(
    on: Scorer, models: Sequence[FittedModel], task: ScoringTask
) -> Iterator[tuple[int, Table, TableScores]]:
    """Score models in other processes; yield the number of each, its table, and its scores.

    The folders of the task are those of the models, which need one.
    """
    numbers = {
        str(model.folder.absolute()): number for number, model in enumerate(models) if model.folder
    }
    if len(numbers) < len(models):
        raise ValueError("models in memory cannot be scored by other processes: give a store")
    modules = {name.partition(":")[0] for model in models for name in own_parts(model.run)}
    task = replace(task, folders=tuple(numbers), imports=tuple(sorted(modules)))
    for scored in on.score(task):
        for folder, content in scored.items():
            model, result = models[numbers[folder]], TableScores.from_json(content)
            path = RunFolder(Path(folder)).table_path(model.split)
            if not path.exists() or (result.problems and not result.scores):
                # It could not be encoded, and a table that is there is an older one.
                raise ValueError(f"{folder}: {'; '.join(result.problems)}")
            yield numbers[folder], Table.load(path), result
