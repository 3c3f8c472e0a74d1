"""Runs in training, without a training."""

from stored_files import newest_state, rewrite_state


def unfinish(folder, step):
    """Make a finished run one in training, at an earlier step."""
    folder.weights.unlink(missing_ok=True)
    rewrite_state(folder.path, step)


def checkpoint(folder, step, value):
    """Write a checkpoint as training does, all of whose weights have a value; drop older ones."""
    tensors, facts, _ = newest_state(folder)
    for name, tensor in tensors.items():
        if name.startswith("parameters/"):
            tensor.fill_(value)
    folder.write_log([*folder.read_log(step - 1), {"step": step, "loss": value}])
    folder.write_state(step, tensors, facts)
    folder.drop_states(before=step)
