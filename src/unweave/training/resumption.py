"""What runs resume from: their own checkpoints, or those of a run with fewer steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from unweave.data import Dataset
from unweave.training.run import Run
from unweave.training.store import RunFolder, Store, read_facts

_WORTH_COMPILING = 10_000  # steps, after which compiling has paid for itself


def worth_compiling(runs: Sequence[Run]) -> bool:
    """Return whether compiling the steps of runs pays for itself."""
    return any(run.steps >= _WORTH_COMPILING for run in runs)


def label_notes(folder: RunFolder, dataset: Dataset) -> list[str]:
    """Note labels that differ from those of the stored run; training does not use them."""
    if not (folder.path / "data.json").exists():
        return []
    same = folder.read_data().labels_fingerprint == dataset.labels_fingerprint
    return [] if same else ["labels have changed since training; scores use the new ones"]


def arithmetic(runs: Sequence[Run], device: torch.device, precision: str) -> dict[str, object]:
    """Return what the bits of a step depend on beside the runs and their state."""
    compiled = device.type == "cuda" and worth_compiling(runs)
    return {"device": device.type, "precision": precision, "compiled": compiled}


def predecessors(
    runs: Sequence[Run],
    dataset: Dataset,
    store: Store | None,
    precision: str,
    measured: bool = False,
) -> dict[str, RunFolder]:
    """Find for each new run a stored one that has taken its first steps, with the same bits.

    That is a run with fewer steps in all, on the same data, device and precision, and with
    measurements if these are `measured`.
    """
    if not store:
        return {}
    new = [run for run in runs if store.folder(run).status in ("not started", "running")]
    found = {}
    shorter = store.shorter_runs(new)
    for run in new:
        expected = arithmetic([run], dataset.device, precision)
        for folder in shorter[run.digest]:
            if folder.status not in ("finished", "stopped") or not (states := folder.states):
                continue
            try:
                record, facts = folder.read_data(), read_facts(states[max(states)])
            except ValueError:  # damaged: nothing to continue
                continue
            if (
                record.fingerprint == dataset.fingerprint
                and (not run.labels or record.labels_fingerprint == dataset.labels_fingerprint)
                and expected.items() <= facts.items()
                and (not measured or folder.read_measures())
            ):
                found[run.digest] = folder
                break
    return found


def group_runs(
    runs: Sequence[Run], store: Store | None, origins: dict[str, RunFolder]
) -> list[list[Run]]:
    """Divide runs into groups that train together.

    The runs of a group have the same structure. Runs with checkpoints stay with those they were
    saved with, so that they continue with the same bits; beside new runs they would start again. A
    run whose group was stopped during its first checkpoint may have none itself. Runs that continue
    others stay with those which these were saved with.
    """
    saved: dict[str, frozenset[str]] = {}  # the lanes that a run was saved with
    for run in runs:
        if store and (states := store.folder(run).states):
            saved[run.digest] = _saved_lanes(states)
    together = {digest: lanes for lanes in saved.values() for digest in lanes} | saved
    for digest, origin in origins.items():
        together.setdefault(digest, _saved_lanes(origin.states))
    groups: dict[tuple[str, frozenset[str]], list[Run]] = {}
    for run in runs:
        key = run.lane_key, together.get(run.digest, frozenset())
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def _saved_lanes(states: dict[int, Path]) -> frozenset[str]:
    """Return the digests of the runs that the newest checkpoint was saved with."""
    return frozenset(read_facts(states[max(states)])["lanes"])
