"""The form of a line of results, which may come from anybody, and what facts of a study consist of.

Texts in results stand in claims, on pages and in drawings. So facts have plain words, which cannot
be markup, and arrays and pictures in base64, of limited size.
"""

import base64
from typing import Annotated, Any, NotRequired  # pydantic needs it before Python 3.12

from pydantic import AfterValidator, Field, PositiveInt
from typing_extensions import TypeAliasType, TypedDict

from unweave.studies.images import check_png
from unweave.training import Precision
from unweave.training.records import Failure, Number

Curves = dict[str, list[Number | None]]


def _same_steps(curves: Curves) -> Curves:
    steps = curves.get("step")
    if steps is None or None in steps:
        raise ValueError("they have no steps")
    if any(len(values) != len(steps) for values in curves.values()):
        raise ValueError("they have different lengths")
    return curves


def _base64(text: str) -> str:
    base64.b64decode(text, validate=True)
    return text


Word = Annotated[str, Field(pattern=r"^[\w +,.:;=()/-]*$")]  # base64 is one, too
Name = Annotated[str, Field(max_length=200)]  # of hardware and versions: pages escape it
Packed = Annotated[str, AfterValidator(_base64)]  # an array: `pack_array`
Picture = Annotated[str, AfterValidator(check_png)]  # `encode_png`
Fact = TypeAliasType("Fact", "Number | Word | list[Fact] | dict[Word, Fact]")
Facts = dict[Word, Fact]  # of any study


class Traversals(TypedDict):
    """Pictures of a study that keeps one of each network."""

    traversals: Picture


class TraversalsAndSamples(Traversals):
    """Pictures of a study that also keeps samples."""

    samples: Picture


class Divergences(TypedDict):
    """Facts of a study that keeps the KL of each latent, and traversals of some networks."""

    kl: list[Number]
    pictures: NotRequired[Traversals]


class StoredCost(TypedDict):
    """What a network cost, and where and when it was trained."""

    seconds: Annotated[float, Field(ge=0, lt=1e12)] | None
    lanes: PositiveInt
    device: Name
    machine: Name
    precision: Precision
    date: NotRequired[Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]]
    version: NotRequired[Name]


class StoredNetwork(TypedDict):
    """A line of the results of a study: a run, and the measurements of its network."""

    run: dict[str, Any]
    curves: Annotated[Curves, AfterValidator(_same_steps)]
    facts: Facts
    cost: StoredCost
    failure: Failure | None
