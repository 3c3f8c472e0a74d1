"""`fit`: learn a representation of data.

>>> import numpy as np
>>> from unweave import MLP, fit
>>> images = np.random.default_rng(0).integers(0, 2, (64, 8, 8)) * 255
>>> model = fit(images.astype(np.uint8), network=MLP(), steps=5, progress=False)
>>> model.encode(images.astype(np.uint8)).shape
(64, 10)
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from rich.console import Console

from unweave.core.notes import print_notes
from unweave.core.optimisers import Adam
from unweave.data import Dataset
from unweave.evaluation.model import FittedModel, as_data
from unweave.evaluation.monitor import Measure, monitor_of
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.networks import Network
from unweave.objectives import Label, Objective
from unweave.training import (
    Outcome,
    Precision,
    Silent,
    TrainingInterrupted,
    notes,
    pick_device,
    train,
)
from unweave.training.progress import ConsoleProgress, failure_text
from unweave.training.run import Run
from unweave.training.store import Store


class Fields(TypedDict, total=False):
    """The fields of `Run` that `fit` takes beside the data and the seed."""

    latent: Latent
    objective: Objective
    network: Network
    likelihood: Likelihood
    optimiser: Adam
    labels: tuple[Label, ...]
    batch_size: int
    steps: int


@overload
def fit(
    data: Any,
    *,
    seed: int = ...,
    device: str = ...,
    store: str | Path | None = ...,
    progress: bool = ...,
    precision: Precision = ...,
    measure: Measure | Sequence[Measure] | None = ...,
    **fields: Unpack[Fields],
) -> FittedModel: ...


@overload
def fit(
    data: Any,
    *,
    seed: Iterable[int],
    device: str = ...,
    store: str | Path | None = ...,
    progress: bool = ...,
    precision: Precision = ...,
    measure: Measure | Sequence[Measure] | None = ...,
    **fields: Unpack[Fields],
) -> list[FittedModel]: ...


def fit(
    data: Any,
    *,
    seed: int | Iterable[int] = 0,
    device: str = "auto",
    store: str | Path | None = None,
    progress: bool = True,
    precision: Precision = "fp32",
    measure: Measure | Sequence[Measure] | None = None,
    **fields: Unpack[Fields],
) -> FittedModel | list[FittedModel]:
    """Learn a representation of data; several seeds train together and return a list.

    After Ctrl-C the models are as they were at the last step, with a warning; with a store, the
    same call resumes there. A second Ctrl-C raises KeyboardInterrupt.

    Args:
        data: observations as an array or tensor, the path of a file or folder, or a data spec.
        seed: the seed, or several. Runs of several that fail are left out, with a warning.
        device: "auto" (CUDA if there is one), "cpu", "cuda", ...
        store: a folder to keep the runs in; a run found there is resumed or loaded, and one that
            has fewer steps is continued.
        progress: show progress, and how the data were read.
        precision: GPU matmul precision, from slowest to fastest: "fp32", "tf32", "bf16".
        measure: what to measure during training, and how often; `model.measures` has the results.
        fields: latent, objective, network, likelihood, optimiser, labels, batch_size, steps, as in
            `Run`.
    """
    spec, dataset = as_data(data, pick_device(device))
    if isinstance(seed, (int, np.integer)):
        runs = [Run(data=spec, seed=int(seed), **fields).resolve(dataset)]
        (outcome,) = _train(runs, dataset, store, progress, precision, measure)
        if outcome.failure:
            raise FloatingPointError(failure_text(outcome.run, outcome.failure))
        return _model(outcome, dataset, store)
    runs = [Run(data=spec, seed=int(each), **fields).resolve(dataset) for each in seed]
    if not runs:
        raise ValueError("expected a seed or several, as seed=range(10), got none")
    outcomes = _train(runs, dataset, store, progress, precision, measure)
    for outcome in outcomes:
        if outcome.failure:
            warnings.warn(failure_text(outcome.run, outcome.failure), stacklevel=2)
    return [_model(outcome, dataset, store) for outcome in outcomes if not outcome.failure]


def _train(
    runs: list[Run],
    dataset: Dataset,
    store: str | Path | None,
    progress: bool,
    precision: Precision,
    measure: Measure | Sequence[Measure] | None,
) -> list[Outcome]:
    console = Console(file=sys.stderr)
    monitor = monitor_of(measure, runs, dataset)
    folder = None if store is None else Store(Path(store))
    if progress:
        print_notes(console, notes(runs, dataset, folder, precision, monitor))
    shown = ConsoleProgress(console) if progress else Silent()
    try:
        outcomes = train(runs, dataset, folder, shown, precision=precision, monitor=monitor)
    except TrainingInterrupted as interruption:
        outcomes = [each for each in interruption.outcomes if each.weights or each.failure]
        if not any(each.weights for each in outcomes):
            raise
        resume = "" if folder is None else "; the same call resumes there"
        warnings.warn(f"{interruption}; the result is the model so far{resume}", stacklevel=4)
    if monitor and any(each.weights is not None and not each.measures for each in outcomes):
        warnings.warn(unmeasured(store), stacklevel=4)
    return outcomes


def unmeasured(store: object) -> str:
    """Say why runs that were to be measured during training have no measurements."""
    return (
        f"finished runs in {store} are not measured again; to train them with measurements, use "
        "another store"
    )


def _model(outcome: Outcome, dataset: Dataset, store: str | Path | None) -> FittedModel:
    folder = None if store is None else Store(Path(store)).folder(outcome.run).path
    return FittedModel(outcome, dataset, folder)
