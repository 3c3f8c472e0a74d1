"""Runs continue with more steps, with the bits of an uninterrupted run, or say why they do not."""

import dataclasses
import re
import shutil
from collections import Counter

import pytest

import unweave as uw
from datasets import CRITIC, SMALL
from stored_files import rewrite_state
from unweave.training import run_files
from unweave.training.resumption import find_continuations
from unweave.training.store import Store

FIELDS = dict(network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, progress=False)


@pytest.mark.parametrize("objective", [uw.VAE(), uw.FactorVAE(gamma=5.0, critic=CRITIC)])
@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_more_steps_continue_with_the_bits_of_an_uninterrupted_run(
    tmp_path, objective, seeds, capsys
):
    fields = FIELDS | {"objective": objective, "seed": seeds}
    short = uw.fit(SMALL, steps=12, store=tmp_path / "runs", **fields)
    files = {each.folder: sorted(each.folder.iterdir()) for each in short}
    longer = uw.fit(SMALL, steps=30, store=tmp_path / "runs", **(fields | {"progress": True}))
    said = capsys.readouterr().err
    for each in short:
        assert f"continues run {each.run.digest} from step 12" in said
    whole = uw.fit(SMALL, steps=30, store=tmp_path / "whole", **fields)
    for one, two in zip(longer, whole, strict=True):
        assert one.log[:12] == two.log[:12]
        for name in ("weights.safetensors", "state-30.safetensors"):
            assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()
    for folder, names in files.items():  # the shorter runs stay as they are
        assert sorted(folder.iterdir()) == names
        assert Store(tmp_path / "runs").named(folder.name).status == "finished"


def test_the_settings_of_stored_runs_are_read_once(tmp_path, monkeypatch):
    """Every part of a sweep used to read those of all runs in the store."""
    fields = FIELDS | {"store": tmp_path, "steps": 2}
    stored = {each.folder / "run.json" for each in uw.fit(SMALL, seed=(0, 1, 2), **fields)}
    reads, read = Counter(), run_files.read_sealed

    def count(path, form):
        reads[path] += 1
        return read(path, form)

    monkeypatch.setattr(run_files, "read_sealed", count)
    uw.fit(SMALL, seed=(3, 4, 5, 6), on=uw.Local(lanes=1), **fields)
    assert all(reads[path] <= 1 for path in stored)


def test_only_the_same_run_is_continued(tmp_path, capsys):
    fields = FIELDS | {"store": tmp_path, "progress": True}
    uw.fit(SMALL, steps=12, **fields)
    others = [
        {"seed": 1}, {"objective": uw.BetaVAE(beta=2)}, {"batch_size": 8}, {"steps": 10},
        {"measure": uw.Measure(every=10)}, {"latent": uw.Gaussian(4)},
    ]  # fmt: skip
    for each in others:
        uw.fit(SMALL, **(fields | {"steps": 20} | each))
        assert "continues run" not in capsys.readouterr().err
    uw.fit(SMALL, steps=25, **fields)  # the longest of those with 10, 12 and 20 steps
    assert "from step 20" in capsys.readouterr().err


def test_lanes_continue_together_or_start_again(tmp_path, capsys):
    """A lane that continued without the others could differ in its last bits."""
    runs = {"store": tmp_path / "runs"}
    short = uw.fit(SMALL, steps=12, seed=(0, 1), **FIELDS, **runs)
    names = [each.run.digest for each in short]
    alone = uw.fit(SMALL, steps=20, seed=(0,), **(FIELDS | {"progress": True}), **runs)
    said = " ".join(capsys.readouterr().err.split())
    assert (
        f"starts again instead of continuing run {names[0]}: it was trained side by side with "
        f"{names[1]}; continue these in the same command" in said
    )
    assert "continues run" not in said
    whole = uw.fit(SMALL, steps=20, seed=(0,), store=tmp_path / "whole", **FIELDS)
    assert _weights(alone[0]) == _weights(whole[0])

    more = uw.fit(SMALL, steps=30, seed=(0, 1, 2), **(FIELDS | {"progress": True}), **runs)
    said = " ".join(capsys.readouterr().err.split())
    assert f"continues run {alone[0].run.digest} from step 20" in said  # the longest
    assert f"starts again instead of continuing run {names[1]}" in said
    for one, seeds in ((more[0], (0,)), (more[1], (1, 2))):
        store = tmp_path / f"whole{len(seeds)}"
        whole = uw.fit(SMALL, steps=30, seed=seeds, store=store, **FIELDS)
        assert _weights(one) == _weights(whole[0])


def test_folders_may_be_renamed(tmp_path, capsys):
    short = uw.fit(SMALL, steps=12, seed=(0, 1), store=tmp_path / "runs", **FIELDS)
    for each in short:
        each.folder.rename(each.folder.with_name(f"seed-{each.run.seed}"))
    fields = FIELDS | {"seed": (0, 1), "progress": True}
    more = uw.fit(SMALL, steps=20, store=tmp_path / "runs", **fields)
    said = capsys.readouterr().err
    assert all(f"continues run seed-{each.run.seed} from step 12" in said for each in short)
    whole = uw.fit(SMALL, steps=20, seed=(0, 1), store=tmp_path / "whole", **FIELDS)
    assert [_weights(each) for each in more] == [_weights(each) for each in whole]


def _weights(model):
    return (model.folder / "weights.safetensors").read_bytes()


def test_lanes_that_were_killed_while_they_continued_resume_together(tmp_path, capsys):
    """One lane has written its first own checkpoint, and the other has not."""
    fields = FIELDS | {"store": tmp_path, "seed": (0, 1)}
    uw.fit(SMALL, steps=12, **fields)
    longer = uw.fit(SMALL, steps=30, **fields)
    expected = [_weights(each) for each in longer]
    for each in longer:
        (each.folder / "weights.safetensors").unlink()
    (longer[1].folder / "state-30.safetensors").unlink()
    again = uw.fit(SMALL, steps=30, **(fields | {"progress": True}))
    said = capsys.readouterr().err
    assert said.count("continues run") == 1  # the other has its own checkpoint
    assert "starts again" not in said
    assert [_weights(each) for each in again] == expected


def test_the_longest_runs_that_all_lanes_have_are_continued(tmp_path, capsys):
    fields = FIELDS | {"store": tmp_path, "progress": True}
    uw.fit(SMALL, steps=10, seed=(0, 1), **fields)
    uw.fit(SMALL, steps=12, seed=(0, 1), **fields)
    capsys.readouterr()
    later = uw.fit(SMALL, steps=14, seed=(0, 1), **fields)
    assert len(re.findall(r"continues run \w+ from step 12", capsys.readouterr().err)) == 2
    for path in (later[0].folder, later[1].folder):
        shutil.rmtree(path)
    for path in tmp_path.glob("*/state-12.safetensors"):
        path.unlink()
        break
    uw.fit(SMALL, steps=14, seed=(0, 1), **fields)
    assert len(re.findall(r"continues run \w+ from step 10", capsys.readouterr().err)) == 2


def test_why_a_run_is_not_continued_is_printed(tmp_path, capsys):
    fields = FIELDS | {"store": tmp_path, "progress": True}
    short = uw.fit(SMALL, steps=12, **fields)
    capsys.readouterr()

    def said(**changes):
        longer = uw.fit(SMALL, steps=20, **(fields | changes))
        shutil.rmtree(longer.folder)
        return " ".join(capsys.readouterr().err.split())

    start = f"starts again instead of continuing run {short.run.digest}: "
    assert start + "it has no measurements" in said(measure=uw.Measure(every=10))
    assert start + "its steps had precision=fp32, and these have precision=tf32" in said(
        precision="tf32"
    )
    (path,) = short.folder.glob("state-*")
    content = path.read_bytes()
    path.write_bytes(content[:100])
    assert "it is damaged" in said()
    path.unlink()
    assert start + "its checkpoint, state-*.safetensors, was removed" in said()
    path.write_bytes(content)
    assert "continues run" in said()


def test_a_run_whose_steps_would_be_compiled_does_not_continue_one_whose_were_not(tmp_path):
    """The reason that a GPU has; the checkpoint is written as one of a GPU."""
    short = uw.fit(SMALL, steps=12, store=tmp_path, **FIELDS)
    rewrite_state(short.folder, compiled=True)
    longer = dataclasses.replace(short.run, steps=20)
    found = find_continuations([longer], short.dataset, Store(tmp_path), "fp32")
    assert not found.origins
    (why,) = found.refusals.values()
    assert "its steps had compiled=True, and these have compiled=False" in why
