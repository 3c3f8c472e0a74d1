"""What runs resume from: their own checkpoints, or those of a run with fewer steps."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import torch

from unweave.core import spec
from unweave.core.groups import grouped
from unweave.core.parts import code_hashes
from unweave.data import Dataset
from unweave.training.log_rows import fails_alike
from unweave.training.processes import ALONE, Processes
from unweave.training.run import Run
from unweave.training.run_files import LOG
from unweave.training.store import RunFolder, Store, changed_data

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


def arithmetic(
    runs: Sequence[Run], device: torch.device, precision: str, processes: Processes = ALONE
) -> dict[str, object]:
    """Return what the bits of a step depend on besides the runs and their state."""
    compiled = device.type == "cuda" and worth_compiling(runs) and not processes.several
    beside = {"processes": processes.size} if processes.size > 1 else {}
    return {"device": device.type, "precision": precision, "compiled": compiled, **beside}


def code_notes(runs: Sequence[Run], store: Store) -> list[str]:
    """Say which runs start anew because the code of users' own parts has changed."""
    stored = store.runs_of_other_code(runs)
    hashes = {run.digest: code_hashes(spec.to_json(run)) for run in runs if run.digest in stored}
    before = {digest: code_hashes(stored[digest].settings) for digest in hashes}
    by_part = grouped(
        (", ".join(sorted(name for name, code in own.items() if code != before[d].get(name))), d)
        for d, own in hashes.items()
    )
    return [
        f"{'the run starts' if len(digests) == 1 else f'{len(digests)} runs start'} anew, because "
        f"the code of {names} has changed since run {stored[digests[0]].path.name}, which is kept"
        for names, digests in by_part.items()
    ]


_Key = tuple[tuple[str, frozenset[str] | None], str]  # of a group of runs, and the name of a lane


class Continuations(NamedTuple):
    """The stored runs that new runs continue, and why others start again, by the new digest."""

    origins: dict[str, RunFolder]
    refusals: dict[str, str]


class _Shorter(NamedTuple):
    """A stored run that may be continued, its newest step, and the lanes it was saved with."""

    folder: RunFolder
    digest: str
    step: int
    lanes: frozenset[str]


def find_continuations(
    runs: Sequence[Run],
    dataset: Dataset,
    store: Store | None,
    precision: str,
    measured: bool = False,
    device: torch.device | None = None,
    processes: Processes = ALONE,
) -> Continuations:
    """Find for each unfinished run a stored one that has taken its first steps, with the same bits.

    That is a run with fewer steps in all, on the same data, device, precision and number of
    processes, and with measurements if these are `measured`. All lanes that it was saved with have
    to continue too, because bits depend on them; those that failed continue as failed runs, if they
    would fail at the same step. The longest such run is taken. The device is that of the dataset,
    or the one given.
    """
    if not store:
        return Continuations({}, {})
    device = device or dataset.device
    unfinished = [run for run in runs if store.folder(run).status not in ("finished", "failed")]
    runs_by_digest = {run.digest: run for run in unfinished}
    together = _saved_together(unfinished, store)
    keys = {run.digest: (run.lane_key, together.get(run.digest)) for run in unfinished}
    refusals: dict[str, str] = {}
    candidates: dict[str, list[_Shorter]] = {}
    failed: dict[_Key, tuple[str, RunFolder]] = {}
    unknown: dict[_Key, tuple[str, RunFolder]] = {}  # would perhaps fail in another way
    for digest, shorter in store.shorter_runs(unfinished).items():
        candidates[digest] = []
        for folder in shorter:
            try:
                if (name := folder.digest) in keys:
                    continue
                if failure := folder.failure:
                    given = folder.settings["steps"], runs_by_digest[digest].steps
                    known = failed if fails_alike(failure, *given) else unknown
                    known[keys[digest], name] = digest, folder
                facts = arithmetic([runs_by_digest[digest]], device, precision, processes)
                why = _difference(runs_by_digest[digest], folder, dataset, facts, measured)
            except ValueError as error:  # one of its files is damaged
                why = str(error)
            if why:
                refusals.setdefault(digest, _refusal(folder, why))
            elif folder.states:
                lanes = saved_lanes(folder)
                candidates[digest].append(_Shorter(folder, name, max(folder.states), lanes))
    while True:
        chosen = {digest: each[0] for digest, each in candidates.items() if each}
        continued = {(keys[digest], each.digest) for digest, each in chosen.items()}
        continued |= failed.keys()
        missing = {
            digest: sorted(name for name in each.lanes if (keys[digest], name) not in continued)
            for digest, each in chosen.items()
        }
        incomplete = [digest for digest, names in missing.items() if names]
        if not incomplete:
            break
        digest = max(incomplete, key=lambda digest: chosen[digest].step)
        names = missing[digest]
        if lost := [name for name in names if (keys[digest], name) in unknown]:
            why = f"run {lost[0]}, trained side by side with it, has failed, and with more steps "
            why += "may fail at another one"
        else:
            listed = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
            why = f"it was trained side by side with {listed}; continue these in the same command"
        refusals.setdefault(digest, _refusal(candidates[digest].pop(0).folder, why))
    origins = {digest: each.folder for digest, each in chosen.items()}
    origins |= dict(
        failed[keys[digest], name]
        for digest, each in chosen.items()
        for name in each.lanes
        if (keys[digest], name) in failed
    )
    return Continuations(origins, {d: why for d, why in refusals.items() if d not in origins})


def continuation_note(origin: RunFolder) -> str:
    """Say which shorter run a run continues."""
    if failure := origin.failure:
        return f"fails as run {origin.path.name} did, at step {failure['step']:,}"
    return f"continues run {origin.path.name} from step {max(origin.states):,}"


def _refusal(folder: RunFolder, why: str) -> str:
    return f"starts again instead of continuing run {folder.path.name}: {why}"


def _difference(
    run: Run, folder: RunFolder, dataset: Dataset, facts: dict[str, object], measured: bool
) -> str:
    """Return why a run cannot continue a shorter one, apart from lanes; "" if it can."""
    if (status := folder.status) == "not started":
        return ""
    if status in ("running", "failed"):
        return "it is being trained" if status == "running" else "it has failed"
    if not (states := folder.states):
        saved_once = folder.weights.exists() or (folder.path / LOG).exists()
        return "its checkpoint, state-*.safetensors, was removed" if saved_once else ""
    record, saved = folder.read_data(), folder.read_state_facts(max(states))
    if record.fingerprint != dataset.fingerprint:
        return f"{changed_data(run.data)} have changed"
    if run.labels and record.labels_fingerprint != dataset.labels_fingerprint:
        return "the labels have changed"
    alone = {"processes": 1}
    for name, value in (alone | facts).items():
        if (had := (alone | saved).get(name)) != value:
            return f"its steps had {name}={had}, and these have {name}={value}"
    if measured and not folder.read_measures():
        return "it has no measurements"
    return ""


def group_runs(
    runs: Sequence[Run],
    store: Store | None,
    origins: dict[str, RunFolder],
    failed: Collection[str] = (),
    parts: Mapping[str, str] | None = None,
) -> list[list[Run]]:
    """Divide runs into groups that train together.

    The runs of a group have the same structure. Runs with checkpoints stay with those they were
    saved with, so that they continue with the same bits; beside new runs they would start again.
    Runs that continue others stay with those which these were saved with. The digests in `failed`
    are those of runs that have failed; they keep their place beside others. `parts` names the part
    of each run by its digest: new runs train together only with those of their part.
    """
    together = _saved_together(runs, store) if store else {}
    saved = [saved_lanes(origin) for origin in origins.values() if not origin.failure]
    beside = {name: lanes for lanes in saved for name in lanes}
    for digest, origin in origins.items():
        together.setdefault(digest, beside[origin.digest])

    def key(run: Run) -> tuple[str, frozenset[str]]:
        part = frozenset([parts[run.digest]]) if parts else frozenset[str]()
        return run.lane_key, together.get(run.digest, part)

    groups = grouped((key(run), run) for run in runs)
    return [group for group in groups.values() if any(run.digest not in failed for run in group)]


def _saved_together(runs: Sequence[Run], store: Store) -> dict[str, frozenset[str]]:
    """Return the lanes of checkpoints by digest.

    A run whose group was stopped during its first checkpoint may have none itself.
    """
    folders = {run.digest: store.folder(run) for run in runs}
    saved = {digest: saved_lanes(each) for digest, each in folders.items() if each.states}
    return {digest: lanes for lanes in saved.values() for digest in lanes} | saved


def saved_lanes(folder: RunFolder) -> frozenset[str]:
    """Return the digests of the runs that the newest checkpoint was saved with."""
    return frozenset(folder.read_state_facts(max(folder.states)).get("lanes", ()))
