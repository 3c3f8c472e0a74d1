"""Schedules: the weight of a term as a function of the training step.

A constant weight is a plain number. `Weight` is the type of all weights of objectives; runs that
differ only in weights train together.
"""

import math
from abc import ABC, abstractmethod
from numbers import Real
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeFloat, Tag

from unweave.core.hints import count_noun
from unweave.core.parts import Open
from unweave.core.spec import Count, Lane, spec, tag


class Schedule(ABC):
    """A weight that changes during training."""

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the weight at a step."""

    @abstractmethod
    def __str__(self) -> str:
        """Describe the change in a few words."""

    @property
    def last_change(self) -> int | None:
        """The step after which the weight is constant; None if it never is."""
        return None


@spec
class Linear(Schedule):
    """Linear from `start` to `stop` over `steps` steps, then constant.

    >>> Linear(0.0, 4.0, steps=100)(25)
    1.0
    >>> str(Linear(0.0, 4.0, steps=10_000))
    'from 0 to 4 over 10,000 steps'
    """

    start: NonNegativeFloat = 0.0
    """Weight at the first step."""
    stop: NonNegativeFloat = 1.0
    """Weight after the last step of the schedule."""
    steps: Count = 10_000
    """Steps from start to stop."""
    kind: Literal["linear"] = tag("linear")

    def __call__(self, step: int) -> float:
        """Return the weight at a step."""
        return self.start + (self.stop - self.start) * min(1.0, step / self.steps)

    @property
    def last_change(self) -> int:
        """The step after which the weight is `stop`."""
        return self.steps

    def __str__(self) -> str:
        return f"from {self.start:g} to {self.stop:g} over {count_noun(self.steps, 'step')}"


@spec
class Cyclic(Schedule):
    """Cyclical annealing, [Fu2019]: a sawtooth with a plateau.

    In each `period` the weight rises linearly from `low` to `high` during the fraction `rise`, then
    stays at `high`.

    >>> [round(Cyclic(0.0, 1.0, period=10, rise=0.5)(step), 1) for step in (0, 2, 5, 9, 10)]
    [0.0, 0.4, 1.0, 1.0, 0.0]
    """

    low: NonNegativeFloat = 0.0
    """Weight at the start of each period."""
    high: NonNegativeFloat = 1.0
    """Weight at the end of each period."""
    period: Count = 10_000
    """Steps of a period."""
    rise: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of a period in which the weight rises."""
    kind: Literal["cyclic"] = tag("cyclic")

    def __call__(self, step: int) -> float:
        """Return the weight at a step."""
        phase = math.fmod(step, self.period) / self.period
        return self.low + (self.high - self.low) * min(1.0, phase / self.rise)

    def __str__(self) -> str:
        return f"between {self.low:g} and {self.high:g} every {self.period:,} steps"


def _form(value: Any) -> str | None:
    if isinstance(value, dict):
        return str(value.get("kind"))
    return str(getattr(value, "kind", "number"))


Weight = Annotated[
    Annotated[NonNegativeFloat, Tag("number")]
    | Annotated[Linear, Tag("linear")]
    | Annotated[Cyclic, Tag("cyclic")]
    | Schedule,
    Open(Discriminator(_form)),
    Lane(),
]


def at(weight: float | Schedule, step: int) -> float:
    """Return the value of a weight at a step.

    >>> at(4.0, 100), at(Linear(0.0, 1.0, steps=10), 5)
    (4.0, 0.5)
    """
    if not isinstance(weight, Schedule):
        return weight
    value = weight(step)
    if not (isinstance(value, Real) and 0 <= value < math.inf):
        raise ValueError(
            f"{type(weight).__name__} at step {step:,}: expected a number of at least 0, got "
            f"{value!r}"
        )
    return float(value)
