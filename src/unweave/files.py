"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

UNFINISHED = ".unfinished-"  # beginning of the name of a file that is being written


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a crash."""
    beside = path.with_name(f"{UNFINISHED}{uuid.uuid4().hex}-{path.name}")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
