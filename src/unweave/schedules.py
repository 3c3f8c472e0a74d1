"""Schedules: the weight of a term as a function of the training step.

A constant weight is a plain number. `Weight` is the type of every weight of every objective; runs
that differ only in weights train together.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeFloat, PositiveInt, Tag

from unweave.spec import Lane, spec, tag


@spec
class Linear:
    """From `start` to `stop` in a straight line over `steps` steps, then constant.

    >>> Linear(0.0, 4.0, steps=100)(25)
    1.0
    """

    start: NonNegativeFloat = 0.0
    stop: NonNegativeFloat = 1.0
    steps: PositiveInt = 10_000
    kind: Literal["linear"] = tag("linear")

    def __call__(self, step: int) -> float:
        """The weight at a step."""
        return self.start + (self.stop - self.start) * min(1.0, step / self.steps)


@spec
class Cyclic:
    """Sawtooth with period `period`: rises from `low` to `high` over `rise` of it, then rests.

    The cyclical annealing of [Fu2019].

    >>> [round(Cyclic(0.0, 1.0, period=10, rise=0.5)(step), 1) for step in (0, 2, 5, 9, 10)]
    [0.0, 0.4, 1.0, 1.0, 0.0]
    """

    low: NonNegativeFloat = 0.0
    high: NonNegativeFloat = 1.0
    period: PositiveInt = 10_000
    rise: Annotated[float, Field(gt=0, le=1)] = 0.5
    kind: Literal["cyclic"] = tag("cyclic")

    def __call__(self, step: int) -> float:
        """The weight at a step."""
        phase = math.fmod(step, self.period) / self.period
        return self.low + (self.high - self.low) * min(1.0, phase / self.rise)


def _form(value: Any) -> str | None:
    if isinstance(value, dict):
        return str(value.get("kind"))
    return str(getattr(value, "kind", "number"))


Weight = Annotated[
    Annotated[NonNegativeFloat, Tag("number")]
    | Annotated[Linear, Tag("linear")]
    | Annotated[Cyclic, Tag("cyclic")],
    Discriminator(_form),
    Lane(),
]


def at(weight: float | Linear | Cyclic, step: int) -> float:
    """The value of a weight at a step.

    >>> at(4.0, 100), at(Linear(0.0, 1.0, steps=10), 5)
    (4.0, 0.5)
    """
    return weight if isinstance(weight, (int, float)) else weight(step)
