"""Train the networks of a study that are missing, in slices, and store their results."""

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from unweave.core import files
from unweave.core.devices import machine
from unweave.core.groups import grouped
from unweave.core.parallel import thread_map, usable_cores
from unweave.data import Dataset
from unweave.data.dataset import DataNotFound
from unweave.evaluation.model import FittedModel
from unweave.evaluation.tasks import Job, Task, Trained, forget_failures
from unweave.studies.study import (
    Network,
    Results,
    Study,
    add_networks,
    read_networks,
    stored_results,
)
from unweave.studies.workspace import Workspace, today, version
from unweave.training import Outcome, Row
from unweave.training.own_data import Datasets
from unweave.training.run import Run
from unweave.training.status import duration
from unweave.training.workers import torch_threads


def train_or_load(workspace: Workspace, study: Study) -> Results:
    """Return the results of a study, after training what is missing, as far as time allows.

    Networks train in lanes. Results are written after each group of lanes, so after any
    interruption the next call continues from the results and from the store's checkpoints.
    Without the data nothing is trained, and stored results are returned if there are any.
    """
    path = study.path(workspace.out)
    results = stored_results(study, workspace.out)
    failed = [each.run for each in results.networks if each.failure and workspace.retry_failed]
    if (results.missing or failed) and time.monotonic() < workspace.deadline:
        todo = [*results.missing, *failed][: workspace.networks]
        if workspace.networks is not None:
            workspace.networks -= len(todo)
        if todo:
            again = f", and {len(failed)} failed and are tried again" if failed else ""
            workspace.say(
                f"{len(results.missing)} of {len(study.runs)} networks of {study.name} are missing"
                f"{again}"
            )
            try:
                seconds = _train_missing(workspace, study, todo, path)
            except DataNotFound as reason:
                if not results.networks:
                    raise
                workspace.say(f"{reason}. Stored results are used.")
            else:
                results = stored_results(study, workspace.out)
                _report_missing(workspace, results, seconds)
    elif not results.missing:
        workspace.say(f"all {len(study.runs)} networks of {study.name} are stored in {path}")
    workspace.costs |= {network.key: network.cost for network in results.networks}
    return results


def _train_missing(workspace: Workspace, study: Study, runs: Sequence[Run], path: Path) -> float:
    """Train runs until all are done or time is up, and store results as they come.

    Return the seconds that a step of one network took.
    """
    datasets = Datasets(workspace.device)
    of_study: dict[str, Run] = {}  # by the digests of resolved runs
    seconds = float("nan")  # of a step of one network

    def jobs() -> Iterator[Job]:
        on_gpu = workspace.device.type == "cuda"
        lanes = study.lanes or (study.gpu_lanes if on_gpu else usable_cores())
        for group in _groups(runs, lanes, read_networks(path)):
            if time.monotonic() >= workspace.deadline:
                break
            task = Task(
                runs=tuple(group),
                store=files.disk.name(workspace.store.root.absolute()),
                device=workspace.worker_device,
                precision=study.precision,
                checkpoint_seconds=workspace.checkpoint_seconds,
                measure=study.measures,
            )
            job = Job.prepare(task, datasets)
            forget_failures(job.failed if workspace.retry_failed else ())
            resolved = (run.digest for run in job.task.runs)
            of_study.update(zip(resolved, group, strict=True))
            yield job

    for trained in workspace.on.run(jobs(), workspace.progress, workspace.deadline):
        known = [of_study[outcome.run.digest] for outcome in trained.outcomes]
        seconds = trained.seconds / trained.steps if trained.steps else float("nan")
        if known:
            workspace.trained += sum(outcome.has_weights for outcome in trained.outcomes)
            dataset = datasets.load(known[0].data)
            networks = _describe(workspace, study, known, trained, seconds, dataset)
            if networks:
                add_networks(study, path, networks)
    return seconds


def _groups(runs: Sequence[Run], most: int, failed: Collection[str]) -> Iterator[list[Run]]:
    """Yield runs that can train together, at most `most` at once, by the place of the first.

    Those that have failed before are alone: each resumes from another step.
    """
    alike = grouped((run.digest if run.digest in failed else run.lane_key, run) for run in runs)
    groups = [
        group[at : at + most] for group in alike.values() for at in range(0, len(group), most)
    ]
    yield from sorted(groups, key=lambda group: runs.index(group[0]))


def _describe(
    workspace: Workspace,
    study: Study,
    runs: Sequence[Run],
    trained: Trained,
    seconds: float,
    dataset: Dataset,
) -> list[Network]:
    """Return the results of those networks of a group that are trained, or failed.

    `seconds` are those of a step of one network. On a CPU each core describes one network at a
    time.
    """
    device = trained.device or workspace.device.type
    cost = {
        "seconds": None if seconds != seconds else seconds * runs[0].steps,
        "lanes": len(runs),
        "device": device,
        "machine": trained.machine or machine(workspace.device),
        "precision": study.precision if device == "cuda" else "fp32",
        "date": today(),
        "version": version(),
    }
    finished = [
        (run, outcome)
        for run, outcome in zip(runs, trained.outcomes, strict=True)
        if outcome.has_weights or outcome.failure
    ]

    def network(pair: tuple[Run, Outcome]) -> Network:
        run, outcome = pair
        facts = {} if outcome.failure else study.describe(FittedModel(outcome, dataset))
        return Network(run, _columns(outcome.measures), facts, cost, outcome.failure)

    each = workspace.each("networks described", finished)
    if dataset.device.type != "cpu":
        return [network(pair) for pair in each]
    with torch_threads(1):
        return list(thread_map(network, each))


def _columns(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """Return measurements by name, such as "terms/rate", with None where one is missing."""
    flat = [
        {"step": row["step"]}
        | {f"{kind}/{name}": v for kind in row if kind != "step" for name, v in row[kind].items()}
        for row in rows
    ]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in ("step", *names)}


def _report_missing(workspace: Workspace, results: Results, seconds: float) -> None:
    study, missing = results.study, results.missing
    if not missing:
        return
    steps = sum(run.steps for run in missing)
    done = sum(workspace.store.folder(run).reached(run.steps) for run in missing)
    text = f"{len(missing)} of {len(study.runs)} networks of {study.name} are still missing"
    if done:
        text += f", {done / steps:.0%} of their steps are done"
    on_gpu = [study.seconds.get(run.objective.kind, float("nan")) for run in missing]
    if seconds == seconds:
        text += f"; at this speed they would take {duration(seconds * (steps - done))}"
    if workspace.device.type != "cuda" and sum(on_gpu) == sum(on_gpu):
        text += f", on an H200 GPU {duration(sum(on_gpu))}"
    workspace.say(f"{text}. Run the same command again to continue.")
