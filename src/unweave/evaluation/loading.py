"""Load trained models, from their run folders or from single files."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from unweave.core import files
from unweave.core.files import error_text
from unweave.core.hints import nearest_path
from unweave.core.outputs import DEFAULT_STORE
from unweave.core.parts import reading_again
from unweave.data.splits import AnySplit, takes_all
from unweave.evaluation.model import FittedModel
from unweave.evaluation.source import DataSource, SourceFinder
from unweave.networks import Network
from unweave.training import Outcome, StoredOutcome, pick_device, recall
from unweave.training.model_file import read_model
from unweave.training.progress import failure_text
from unweave.training.run import Run
from unweave.training.state import check_tensors
from unweave.training.store import DataRecord, RunFolder, Store


@overload
def load(  # type: ignore[overload-overlap]  # a text is one path, not one path a letter
    path: str | Path,
    *,
    data: Any = ...,
    split: AnySplit | None = ...,
    device: str = ...,
    network: Network | None = ...,
) -> FittedModel: ...


@overload
def load(
    path: Iterable[str | Path],
    *,
    data: Any = ...,
    split: AnySplit | None = ...,
    device: str = ...,
    network: Network | None = ...,
) -> list[FittedModel]: ...


def load(
    path: str | Path | Iterable[str | Path],
    *,
    data: Any = None,
    split: AnySplit | None = None,
    device: str = "auto",
    network: Network | None = None,
) -> FittedModel | list[FittedModel]:
    """Load a run from its folder or from a file written by `FittedModel.save`; a list gives a list.

    If the path does not exist, its last part may be the start of a digest, as in
    `load("runs/3f2a")`, if only one run in that folder starts with it. `load("3f2a")` looks in the
    current folder and, if no run there starts with it, in the folder `runs`, as the commands do. A
    run that is not finished has its newest weights.

    The data are loaded only when something is first measured on them, and runs on the same data
    share them. `data` is where the data are now, if they have moved, or the array that a run was
    trained on; it must have the same content. `split` chooses the split to evaluate on: `load(path,
    split="test")` evaluates on data that the run has not seen, and `split="held-out"` on the
    combinations that were held out. If the run was trained on all of the data, it has seen every
    split, and a warning says so. If its network was `uw.Modules` of modules that cannot be
    imported, pass them again as `network`.
    """
    finder = SourceFinder(data, split, pick_device(device))
    if isinstance(path, (str, Path)):
        return _load(path, finder, network)
    return [_load(each, finder, network) for each in path]


class UnreadModel(FittedModel):
    """A run in a store whose weights, log and measurements are read when they are first used."""

    def __init__(self, outcome: StoredOutcome, source: DataSource, folder: Path) -> None:
        self.run, self.source, self.folder = outcome.run, source, folder
        self.path, self._outcome = folder, outcome

    @property
    def step(self) -> int:
        """The step that the weights are of; only the end of the log is read."""
        rows = self._outcome.log_end
        return int(rows[-1]["step"]) if rows else 0

    def __getattr__(self, name: str) -> Any:
        """Read the weights, the log and the measurements when one of them is first used."""
        if name not in ("log", "measures", "trained"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        model = loader_like(self)(self.path)
        self.log, self.measures, self.trained = model.log, model.measures, model.trained
        return vars(self)[name]


def load_each(
    paths: Iterable[Path],
    *,
    data: Any = None,
    split: AnySplit | None = None,
    device: str = "auto",
    keep: bool = True,
    check: bool = True,
) -> tuple[list[FittedModel], dict[Path, str]]:
    """Load the runs that can be loaded with their data; also return why the others cannot.

    Without `keep`, weights and logs of finished runs are not kept but read again where they are
    used: a command can then go through thousands of runs. Without `check` as well, they are not
    read here at all, because other processes score the runs.
    """
    finder = SourceFinder(data, split, pick_device(device))
    models: list[FittedModel] = []
    reasons: dict[Path, str] = {}
    for path in paths:
        try:
            model = _load(path, finder, None) if keep or check else _find(path, finder)
            _ = model.dataset  # raises if the data are missing
            models.append(model if keep else _unread(model))
        except (ValueError, OSError) as error:
            reasons[path] = error_text(error)
    return models, reasons


def _unread(model: FittedModel) -> FittedModel:
    """Return a finished run without its weights and log; others may change, and stay in memory."""
    if isinstance(model, UnreadModel) or model.folder is None:
        return model
    folder = RunFolder(model.folder)
    if not folder.weights.exists():
        return model
    return UnreadModel(StoredOutcome(folder, model.run), model.source, model.folder)


def in_memory(model: FittedModel) -> FittedModel:
    """Return a model with its weights and log, which are read if they are not in memory."""
    if isinstance(model, UnreadModel) and "trained" not in vars(model):
        return loader_like(model)(model.path)
    return model


def loader(*, data: Any = None, device: str = "auto") -> Callable[[Path], FittedModel]:
    """Return a function that loads runs one at a time; those over the same data share them."""
    finder = SourceFinder(data, None, pick_device(device))
    return lambda path: _load(path, finder, None)


def loader_like(model: FittedModel) -> Callable[[Path], FittedModel]:
    """Return a function that loads the run of a model again, on the same data and device."""

    def load_again(path: Path) -> FittedModel:
        with reading_again():
            outcome, _, folder = _read_trained(path, model.run.network)
        return FittedModel(outcome, model.source, folder)

    return load_again


def _load(path: str | Path, finder: SourceFinder, network: Network | None) -> FittedModel:
    outcome, record, folder = _read_trained(Path(path), network)
    return FittedModel(outcome, _source(path, outcome.run, record, finder), folder)


def _find(path: Path, finder: SourceFinder) -> FittedModel:
    folder = RunFolder(path)
    outcome = StoredOutcome(folder, folder.read_run())
    _check_trained(path, outcome)
    source = _source(path, outcome.run, folder.read_data(), finder)
    return UnreadModel(outcome, source, path)


def _source(path: str | Path, run: Run, record: DataRecord, finder: SourceFinder) -> DataSource:
    shown = files.disk.name(Path(path))
    if finder.split in ("validation", "test") and takes_all(run.data):
        warnings.warn(
            f"{shown} was trained on all of its data, split=all: it has seen the "
            f"{finder.split} split, and scores on it are not those of unseen data; train with "
            "data.split=train to hold it out",
            stacklevel=4,
        )
    try:
        return finder.find(run.data, record)
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from None


def _check_trained(path: Path, outcome: Outcome) -> None:
    """Raise a ValueError if there are no weights."""
    shown = files.disk.name(path)
    if outcome.failure and not outcome.has_weights:
        raise ValueError(f"{shown} has no weights: {failure_text(outcome.run, outcome.failure)}")
    if not outcome.has_weights:
        raise ValueError(f"{shown} has no weights yet: train it first, with `unweave train`")


def _read_trained(path: Path, network: Network | None) -> tuple[Outcome, DataRecord, Path | None]:
    """Read a run as `_read` does; raise a ValueError if it has no weights that fit its networks."""
    outcome, record, folder = _read(path)
    run, shown = outcome.run, files.disk.name(path)
    if network is not None and network != run.network:
        raise ValueError(f"{shown} was trained with network {run.network}, got {network}")
    _check_trained(path, outcome)
    assert outcome.weights is not None
    try:
        check_tensors("its weights", outcome.weights, _expected_weights(run, record.schema.shape))
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from None
    return outcome, record, folder


def _expected_weights(run: Run, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Return the weights of the networks of a run, shapes alone."""
    try:
        with torch.device("meta"):
            return run.build(shape).state_dict()
    except (RuntimeError, TypeError, LookupError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"its networks do not fit data of shape {shape}: {reason}") from None


def _named(path: Path) -> RunFolder:
    """Find a run by the start of its digest; without a folder, also in that of the commands."""
    own = Store(path.parent)
    alone = path.name == str(path) and DEFAULT_STORE.is_dir()
    here = not alone or any(each.path.name.startswith(path.name) for each in own.folders())
    return (own if here else Store(DEFAULT_STORE)).named(path.name)


def _read(path: Path) -> tuple[Outcome, DataRecord, Path | None]:
    """Read a run from a file or a folder; also return the folder."""
    if path.is_file():
        return *read_model(path), None
    if not path.exists() and (path.suffix or not path.parent.is_dir()):  # no start of a digest
        raise ValueError(f"there is no file or folder {path}: {nearest_path(path)}")
    folder = RunFolder(path) if path.is_dir() else _named(path)
    run = folder.read_run()
    outcome = recall(folder, run)
    return outcome, folder.read_data(), folder.path
