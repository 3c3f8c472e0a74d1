"""Olivetti faces: 400 photographs of 40 people, which stand in for datasets that are not at hand.

The spec says which array they are, and the user gives the file: `unweave reproduce --data`.
"""

from __future__ import annotations

from unweave.data import InMemory
from unweave.studies.study import Results

OLIVETTI = InMemory("0b6a681062c23bad0a0d92f4054d9a8a890f1ad3a2212fa524c272657bc1b5b0",
                    (400, 64, 64), "uint8")  # fmt: skip


def is_stand_in(results: Results) -> bool:
    """Return whether the networks of a study are trained on a user's images."""
    return isinstance(results.study.runs[0].data, InMemory)


def stand_in_text(results: Results, title: str) -> str:
    """Say that a study is about other images than those of the paper; "" if it is not."""
    data = results.study.runs[0].data
    if not isinstance(data, InMemory):
        return ""
    return f" **A stand-in: {data.shape[0]:,} other images in place of {title}.**"
