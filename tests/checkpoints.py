"""Runs in training, without a training."""

from unweave.training.store import read_tensors, write_tensors


def unfinish(folder, step):
    """Make a finished run one in training, at an earlier step."""
    folder.weights.unlink(missing_ok=True)
    (newest,) = folder.states.values()
    tensors, facts = read_tensors(newest)
    newest.unlink()
    write_tensors(folder.path / f"state-{step}.safetensors", tensors, facts | {"step": step})


def checkpoint(folder, step, value):
    """Write a checkpoint as training does, all of whose weights have a value; drop older ones."""
    (newest,) = folder.states.values()
    tensors, facts = read_tensors(newest)
    for name, tensor in tensors.items():
        if name.startswith("parameters/"):
            tensor.fill_(value)
    folder.write_log([*folder.read_log(step - 1), {"step": step, "loss": value}])
    write_tensors(folder.path / f"state-{step}.safetensors", tensors, facts | {"step": step})
    folder.drop_states(before=step)
