"""Write files of run folders as training and `evaluate` do, with content of a test's choice."""

import json
import time

from unweave.metrics import Score
from unweave.training.heartbeats import record_path
from unweave.training.records import read_sealed, write_record
from unweave.training.store import RunFolder
from unweave.training.tensor_files import read_tensors


def stored_scores(values):
    """Scores by key as a scores file has them."""
    parts = {key: key.split("/") for key in values}
    return {key: Score(*parts[key], float(value)).to_json() for key, value in values.items()}


def write_worker(root, name, **facts):
    """Write the record of a worker of a store."""
    path = record_path(root, name)
    path.parent.mkdir(exist_ok=True)
    record = {"host": "a<b", "pid": 17, "beats": 3, "time": time.time(), "device": "cuda:0"}
    path.write_text(json.dumps(record | facts))


def rewrite(path, changes):
    """Change fields of a JSON file of a run folder, and seal it again."""
    found = read_sealed(path)
    write_record(path, found.run, found.content | changes)


def newest_state(folder):
    """The tensors and facts of the newest checkpoint, and its step."""
    step = max(folder.states)
    tensors, facts = read_tensors(folder.states[step], folder.digest)
    del facts["crc32"], facts["step"]
    return tensors, facts, step


def rewrite_state(path, step=None, **changes):
    """Write the newest checkpoint of a run folder again, with other facts or for another step."""
    folder = RunFolder(path)
    tensors, facts, newest = newest_state(folder)
    if step is not None:
        folder.states[newest].unlink()
    folder.write_state(newest if step is None else step, tensors, facts | changes)
