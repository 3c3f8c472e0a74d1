"""Write files atomically, so that after a crash a file is complete or absent."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".unfinished-"  # prefix of the name of a file that is being written


def write_json(path: Path, content: object) -> None:
    """Write indented JSON atomically."""
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is complete or absent, even after a crash."""
    with atomically(path) as file:
        file.write(content)


@contextmanager
def atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file to write to, which replaces `path` when the block is left normally."""
    beside = path.with_name(f"{UNFINISHED}{uuid.uuid4().hex}-{path.name}")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
