"""Photographs without known factors, and a stand-in for datasets of them that are not at hand.

Olivetti faces are 400 photographs of 40 people. The spec says which array they are, and the user
gives the file: `unweave reproduce --data`.
"""

from typing import Any

import numpy as np

from unweave.data import InMemory
from unweave.evaluation.model import FittedModel
from unweave.metrics import Table
from unweave.studies.images import traversals_png
from unweave.studies.study import PICTURES, Network, Results
from unweave.studies.workspace import Numbers

_COLUMNS = 8  # of a picture

OLIVETTI = InMemory("0b6a681062c23bad0a0d92f4054d9a8a890f1ad3a2212fa524c272657bc1b5b0",
                    (400, 64, 64), "uint8")  # fmt: skip


def describe_photographs(model: FittedModel, table: Table, latents: int, **facts: Any) -> Numbers:
    """Return the KL of each latent, other facts, and traversals of those with the largest."""
    size = model.dataset.size
    assert table.kl is not None
    shown = np.arange(_COLUMNS) * (size // _COLUMNS)
    sheet = traversals_png(model, table.kl, shown, 3 * size // _COLUMNS, latents, levels=64)
    return {"kl": table.kl.tolist(), **facts, PICTURES: {"traversals": sheet}}


def first_pictured(results: Results) -> list[Network]:
    """Return the networks with seed 0 that have pictures."""
    return [n for n in results.networks if n.run.seed == 0 and PICTURES in n.facts]


def is_stand_in(results: Results) -> bool:
    """Return whether the networks of a study are trained on a user's images."""
    return isinstance(results.study.runs[0].data, InMemory)


def stand_in_text(results: Results, title: str) -> str:
    """Say that a study is about other images than those of the paper; "" if it is not."""
    data = results.study.runs[0].data
    if not isinstance(data, InMemory):
        return ""
    return f" **A stand-in: {data.shape[0]:,} other images in place of {title}.**"
