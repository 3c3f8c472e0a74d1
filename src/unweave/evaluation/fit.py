"""`fit`: learn a representation of data.

>>> import numpy as np
>>> from unweave import MLP, fit
>>> images = np.random.default_rng(0).integers(0, 2, (64, 8, 8)) * 255
>>> model = fit(images.astype(np.uint8), network=MLP(), steps=5, progress=False)
>>> model.encode(images.astype(np.uint8)).shape
(64, 10)
"""

import dataclasses
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, get_type_hints, overload

import numpy as np

from unweave.core import files, spec
from unweave.core.console import PlainConsole
from unweave.core.groups import grouped
from unweave.core.hints import count_noun, nearest, nearest_name
from unweave.core.notes import print_notes
from unweave.core.optimisers import Adam
from unweave.core.spec import digest
from unweave.data.files.labels import LABEL_WORDS
from unweave.data.splits import AnySplit, with_split
from unweave.evaluation.collapse import collapse_warning
from unweave.evaluation.model import FittedModel, as_data
from unweave.evaluation.monitor import Measure, as_measures
from unweave.evaluation.overfitting import overfit_warning
from unweave.evaluation.tasks import (
    Executor,
    Job,
    Task,
    TasksFailed,
    ThisProcess,
    forget_failures,
)
from unweave.evaluation.unfinished import unfinished_note
from unweave.evaluation.validation import final_loss
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.networks import Network
from unweave.objectives import Label, Objective
from unweave.training import Outcome, Precision, Progress, Row, Silent, TrainingInterrupted, notes
from unweave.training.final_terms import ends_collapsed
from unweave.training.overrides import OTHER_NAMES
from unweave.training.own_data import Datasets, is_own_data, suggest
from unweave.training.own_data_settings import settings_lines
from unweave.training.precision import check_precision
from unweave.training.processes import ALONE, Processes
from unweave.training.progress import ConsoleProgress, failure_text
from unweave.training.remote_stores import store_root
from unweave.training.run import Run
from unweave.training.run_text import sweep_text
from unweave.training.store import Store

AnyProgress = bool | Progress | Callable[[int, Sequence[Row]], object]


class Fields(TypedDict, total=False):
    """The fields of `Run` that `fit` takes besides the data and the seed."""

    latent: Latent
    objective: Objective
    network: Network
    likelihood: Likelihood
    optimiser: Adam
    labels: tuple[Label, ...]
    batch_size: int
    steps: int


class Options(Fields, total=False):
    """All that `fit` takes besides the data and the seed."""

    device: str
    store: str | Path | None
    progress: AnyProgress
    split: AnySplit | None
    precision: Precision
    measure: Measure | Sequence[Measure] | None
    on: Executor | None
    retry_failed: bool


@overload
def fit(data: Any, *, seed: int = ..., **options: Unpack[Options]) -> FittedModel: ...


@overload
def fit(data: Any, *, seed: Iterable[int], **options: Unpack[Options]) -> list[FittedModel]: ...


def fit(
    data: Any,
    *_others: Any,
    seed: int | Iterable[int] = 0,
    device: str = "auto",
    store: str | Path | None = None,
    progress: AnyProgress = True,
    split: AnySplit | None = None,
    precision: Precision = "fp32",
    measure: Measure | Sequence[Measure] | None = None,
    on: Executor | None = None,
    retry_failed: bool = False,
    **fields: Unpack[Fields],
) -> FittedModel | list[FittedModel]:
    """Learn a representation of data; several seeds train together and return a list.

    Settings that you do not give are the defaults of `Run`; for your own data (an array, a file or
    a folder) they are chosen to suit the data.

    Ctrl-C returns the models as they are, with a warning; with a store, the same call resumes
    there. A second Ctrl-C raises KeyboardInterrupt. SIGTERM saves the runs and then raises
    KeyboardInterrupt.

    Args:
        data: observations as an array, tensor or table, the path of a file or folder, a data spec,
            or what `uw.data.from_array(x, factors)` returns.
        seed: one seed or several. If several are given, runs that fail are left out with a warning.
        device: "auto" (CUDA if there is one), "cpu", "cuda", ...
        store: a folder or URL (s3://bucket/study) to store the runs in. A run that is already there
            is resumed or loaded, and one with fewer steps is continued.
        progress: True shows progress, how the data were read and which settings were chosen; False
            shows nothing; a function f(step, rows) is called with every log row of each lane.
        split: the split to train on. By default, own data with at least 50 observations are trained
            on "train", and the rest is held out for validation and testing; "all" holds nothing
            out.
        precision: GPU matmul precision, from slowest to fastest: "fp32", "tf32", "bf16".
        measure: what to measure during training, and how often; `model.measures` has the results.
        on: where to train: `uw.Local()`, `uw.Ray()` or `uw.Slurm()`, which need a store that all
            workers can reach. By default this process trains.
        retry_failed: restart failed runs of the store from their last checkpoint.
        fields: latent, objective, network, likelihood, optimiser, labels, batch_size, steps, as in
            `Run`.
    """
    if _others:
        raise TypeError(
            "fit takes only the data by position, the rest by name: give labels together with the "
            "data, as in uw.fit(uw.data.from_array(x, y))"
        )
    check_fields(fields)
    seeds = read_seeds(seed)
    datasets = Datasets((on or ThisProcess()).load_on(device))
    spec = datasets.add(*as_data(data, datasets.device))
    if split is not None:
        spec = with_split(spec, split)
    elif is_own_data(spec):
        spec = datasets.training_split(spec)
    base = Run(data=spec)
    if is_own_data(spec):
        # Fields are checked before they are used to choose others.
        given = Run(data=spec, **fields)
        base = suggest(given, datasets.load(spec), "steps" in fields)
    several = not isinstance(seed, (int, np.integer))
    if not seeds:
        raise ValueError("expected a seed or several, as seed=range(10), got none")
    runs = [dataclasses.replace(base, seed=each, **fields) for each in seeds]
    console = PlainConsole(file=sys.stderr)
    opened = None if store is None else Store(store_root(store))
    try:
        outcomes = train_runs(
            runs,
            datasets,
            opened,
            _as_progress(progress, console),
            console if progress is True else None,
            precision=precision,
            measure=measure,
            on=on,
            device=device,
            retry_failed=retry_failed,
        )
    except TrainingInterrupted as interruption:
        outcomes = [each for each in interruption.outcomes if each.has_weights or each.failure]
        if interruption.terminated or not any(each.has_weights for each in outcomes):
            raise
        resume = "" if store is None else "; the same call resumes there"
        warnings.warn(f"{interruption}; the result is the model so far{resume}", stacklevel=2)
    for outcome in outcomes:
        if outcome.failure and not several:
            raise FloatingPointError(failure_text(outcome.run, outcome.failure))
        if outcome.failure:
            warnings.warn(failure_text(outcome.run, outcome.failure), stacklevel=2)
    if progress is True:
        print_notes(console, _held_out_lines(outcomes))
    trained_on = datasets.load(spec)
    judged = [] if trained_on.schema.extremes else outcomes  # other advice has to wait
    if overfits := overfit_warning(judged):
        _warn(overfits, console if progress is True else None, stacklevel=3)
    if progress is True and (early := unfinished_note(judged)):
        print_notes(console, [early])
    models = [
        FittedModel(each, trained_on, opened.folder(each.run).path if opened else None)
        for each in outcomes
        if not each.failure
    ]
    return models if several else models[0]


def train_runs(
    runs: Sequence[Run],
    datasets: Datasets,
    store: Store | None = None,
    progress: Progress | None = None,
    console: PlainConsole | None = None,
    checkpoint_seconds: float = 30.0,
    precision: Precision = "fp32",
    measure: Measure | Sequence[Measure] | None = None,
    *,
    on: Executor | None = None,
    device: str = "auto",
    threads: int = 0,
    retry_failed: bool = False,
    processes: Processes = ALONE,
) -> list[Outcome]:
    """Resolve and train runs; the outcomes are ordered by data.

    The console shows what a user should know: how data were read, the settings of runs on
    own data, and warnings.

    Args:
        runs: the runs, on any data.
        datasets: where data are loaded from.
        store: where runs are kept, resumed and found; None keeps them in memory only.
        progress: shows the progress.
        console: where notes and warnings are printed; None issues warnings and prints no notes.
        checkpoint_seconds: seconds between checkpoints, or more if they are large.
        precision: GPU matmul precision.
        measure: what to measure during training.
        on: what trains the runs; by default this process does.
        device: where workers train; this process trains where `datasets` are.
        threads: CPU threads of a worker, 0 for its share of the cores.
        retry_failed: let runs that failed before start again from their last checkpoint, each
            alone, after the others have ended.
        processes: the processes that train each run together.
    """
    for text in () if console else dict.fromkeys(t for run in runs for t in run.idle_weights):
        warnings.warn(text, stacklevel=3)  # with a console, a note says so
    by_data = grouped((digest(run.data), run) for run in runs)
    given: dict[str, Any] = {
        "store": files.disk.name(store.root.absolute()) if store else None,
        "device": device,
        "precision": check_precision(precision),
        "checkpoint_seconds": checkpoint_seconds,
        "measure": as_measures(measure),
        "threads": threads,
    }
    jobs: list[Job] = []
    again: list[Job] = []  # of runs that failed before

    def prepared() -> Iterator[Job]:
        for group in by_data.values():
            jobs.append(job := Job.prepare(Task(runs=tuple(group), **given), datasets, processes))
            again.extend(job.failed if retry_failed else ())
            if console and processes.is_first:
                print_notes(console, _lines_before(job))
            yield job

    def retried() -> Iterator[Job]:
        forget_failures(again)
        yield from again

    executor, progress = on or ThisProcess(), progress or Silent()
    by_digest: dict[str, Outcome] = {}
    failed: list[TasksFailed] = []
    try:
        for part in (prepared(), retried()):
            try:
                for trained in executor.run(part, progress):
                    by_digest |= {each.run.digest: each for each in trained.outcomes}
            except TasksFailed as error:
                failed.append(error)
    except TrainingInterrupted as stopped:
        by_digest |= {each.run.digest: each for each in stopped.outcomes}
        resolved = [run.digest for job in jobs for run in job.task.runs]
        so_far = [by_digest[digest] for digest in resolved if digest in by_digest]
        if store and console and processes.is_first and not stopped.terminated:
            others = [run for group in list(by_data.values())[len(jobs) :] for run in group]
            print_notes(console, _unstarted_lines(jobs, others, store))
        raise TrainingInterrupted(so_far, stopped.terminated) from None
    if failed:
        failures = [failure for each in failed for failure in each.failures]
        raise TasksFailed(failures, sum(each.tasks for each in failed))
    outcomes, warned = [], list[str]()
    for job in jobs:
        of_job = [by_digest[run.digest] for run in job.task.runs]
        outcomes += of_job
        off = [each for each in of_job if not each.failure and ends_collapsed(each.log_end)]
        warned += [collapse_warning(each.run, job.dataset, each.measures) for each in off]
        if extremes := job.dataset.schema.extremes:
            warned.insert(0, f"WARNING: {extremes.advice}")
        elif job.validation and (dominant := job.validation.dominant):
            warned.append(dominant.describe())
    if measure and any(o.has_weights and not o.measures for o in outcomes):
        warned.append(
            f"finished runs in {store.root if store else None} are not measured again; to train "
            "them with measurements, use another store"
        )
    for text in warned:
        _warn(text, console, stacklevel=4)
    return outcomes


def _warn(text: str, console: PlainConsole | None, stacklevel: int) -> None:
    """Print a warning; without a console, issue it."""
    if console:
        console.print(text, style="bold yellow", soft_wrap=True)
    else:
        warnings.warn(text, stacklevel=stacklevel)


def _lines_before(job: Job) -> list[str]:
    """Return what a user should know before a job is trained."""
    task, dataset = job.task, job.dataset
    held_out = job.validation.dataset if job.validation else None
    if is_own_data(task.runs[0].data):
        settings = settings_lines(task.runs, dataset, held_out)
    else:
        settings = [f"training {sweep_text(task.runs)}"]
    given = task.run_store, task.precision, job.monitor, job.processes
    return [*notes(task.runs, dataset, *given), *settings]


def _unstarted_lines(jobs: Sequence[Job], others: Sequence[Run], store: Store) -> list[str]:
    """Say how many runs have not started, of some jobs and of others whose data are not loaded."""
    folders = {run.digest: store.folder(run) for job in jobs for run in job.task.runs}
    unstarted = sum(not (folder.ended or folder.states) for folder in folders.values())
    more = len({run.digest for run in others})
    if not (unstarted := unstarted + more):
        return []
    total = len(folders) + more
    have = "has" if unstarted == 1 else "have"
    return [
        f"{unstarted:,} of {count_noun(total, 'run')} {have} not started: run this again to train "
        f"{'it' if unstarted == 1 else 'them'} too"
    ]


def _held_out_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the held-out loss of each run, as far as it was measured."""
    return [
        f"seed {outcome.run.seed}, held out: distortion {loss.distortion:.2f}, rate "
        f"{loss.rate:.2f}, R^2 {loss.r2:.2f}"
        for outcome in outcomes
        if (loss := final_loss(outcome.measures))
    ]


class Callback(Silent):
    """Progress that calls a function with the step and a log row for each lane."""

    def __init__(self, function: Callable[[int, Sequence[Row]], object]) -> None:
        self.function = function

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """Call the function."""
        self.function(step, rows)


def _as_progress(progress: AnyProgress, console: PlainConsole) -> Progress:
    """Return what reports progress, for all that `fit` takes."""
    if isinstance(progress, bool):
        return ConsoleProgress(console) if progress else Silent()
    if isinstance(progress, Progress) and not isinstance(progress, type):
        return progress
    if callable(progress) and not isinstance(progress, type):
        return Callback(progress)
    raise ValueError(
        "expected progress=True, False, a function f(step, rows) or an object with begin, advance, "
        f"broke, note and end, got {progress!r}"
    )


_SHOWN = 3  # classes with a field that a message names
_TOGETHER = "give it together with the data, as in uw.fit(uw.data.from_array(x, {}))"
_WITH_DATA = {"scale": 'scale="common"', "axes": 'axes="nhwc"'} | {
    word: "y" for word in (*LABEL_WORDS, "factors") if word != "labels"
}
_PARTS: dict[str, dict[str, type]] = {
    name: spec.members(hint) for name, hint in get_type_hints(Run, include_extras=True).items()
}


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raise a ValueError for a field that a run does not have, or a part given as something else.

    >>> check_fields({"lr": 0.1})
    Traceback (most recent call last):
        ...
    ValueError: fit has no argument 'lr': did you mean optimiser=uw.Adam(lr=0.1)?
    """
    for name, value in fields.items():
        if name in _WITH_DATA:
            raise ValueError(f"fit has no argument {name!r}: {_TOGETHER.format(_WITH_DATA[name])}")
        if name not in _PARTS:
            raise ValueError(f"fit has no argument {name!r}: {_place(name, value)}")
        if name == "labels" and hasattr(value, "shape"):
            raise ValueError(
                "labels: expected uw.Label(name, ...) for each factor that supervises a block, got "
                f"an array: {_TOGETHER.format('y')}"
            )
        kinds = _PARTS[name]
        if name != "labels" and isinstance(value, (list, tuple)):
            raise ValueError(
                f"{name}: expected one {name}, got {len(value)}: call fit once for each, as in "
                f"[uw.fit(data, {name}=each) for each in ...]"
            )
        if isinstance(value, str) and kinds:
            near = value if value in kinds else nearest_name(value, kinds)
            call = f"use {name}={_call(name, kinds[near])}" if near else nearest(value, kinds)
            raise ValueError(f"{name}: expected an object, got {value!r}: {call}")
        if isinstance(value, type) and value in kinds.values():
            raise ValueError(
                f"{name}: expected an object, got its class: use {name}={_call(name, value)}"
            )
        if name == "latent" and isinstance(value, int):
            raise ValueError(f"latent: expected a latent space, got {value}: {_place(name, value)}")


def read_seeds(seed: int | Iterable[int]) -> list[int]:
    """Return the seeds that `fit` was given: one, or several."""
    several = isinstance(seed, Iterable) and not isinstance(seed, str)
    every: Any = seed if several else [seed]
    try:
        return [operator.index(each) for each in every]
    except TypeError:
        raise ValueError(
            f"seed: expected an integer, or several as in seed=range(4) or seed=[0, 1, 2], got "
            f"{seed!r}"
        ) from None


def _place(name: str, value: object) -> str:
    """Say where an argument belongs: to a part, or under another name."""
    path = "latent.size" if name == "latent" else OTHER_NAMES.get(name, name).partition(",")[0]
    owner, _, field = path.rpartition(".")
    if not owner and path in _PARTS:
        return f"did you mean {path}?"
    owners = []
    for part, kinds in _PARTS.items():
        having = [cls for cls in kinds.values() if field in spec.field_names(cls)]
        if having and part != "data" and owner in ("", part):
            usual = type(getattr(Run(), part))
            owners += [(part, cls) for cls in ([usual] if usual in having else having[:_SHOWN])]
    if not owners:
        return nearest(name, ["seed", *Options.__annotations__])
    given = repr(value) if field == "size" and isinstance(value, int) else f"{field}={value!r}"
    return f"did you mean {' or '.join(f'{p}={_call(p, c, given)}' for p, c in owners)}?"


def _call(part: str, cls: type, arguments: str = "") -> str:
    home = "uw.likelihoods." if part == "likelihood" else "uw."
    return f"{home}{cls.__name__}({arguments})"
