"""How long a study takes on workers that may be preempted: a model, and a simulation of it."""

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from unweave.core.pace import pause

_HOUR = 3600.0
_MOST_STARTS = 1e6  # of tasks in all simulations together
_SIMULATIONS = 200


class StepTime(NamedTuple):
    """Seconds of a training step of runs side by side: a fixed part, and a part for each run.

    >>> StepTime.fit(1, 0.0003, 64, 0.0052).seconds(16)  # doctest: +ELLIPSIS
    0.00146...
    """

    fixed: float
    each: float

    @classmethod
    def fit(cls, few: int, fast: float, many: int, slow: float) -> Self:
        """Fit two measured steps, of few runs and of many; the latter counts as no faster."""
        each = max(0.0, slow - fast) / (many - few) if many > few else fast / few
        if each * few > fast:  # many are slower than one after the other
            return cls(0.0, slow / many)
        return cls(fast - few * each, each)

    def seconds(self, lanes: int) -> float:
        """Return the seconds of a step of this many runs."""
        return self.fixed + self.each * lanes


class Spent(NamedTuple):
    """Expected worker-seconds: training, and what they are spent on otherwise."""

    training: float
    starting: float
    saving: float
    lost: float  # to preemption: repeated steps and starts

    @property
    def total(self) -> float:
        """All worker-seconds."""
        return sum(self)


@dataclass(frozen=True)
class Conditions:
    """The conditions under which workers train, in seconds.

    Preemptions come at random, at a constant rate. Each costs the work since the last checkpoint
    and another start.
    """

    workers: int
    starting: float = 60.0
    """From the start of a task to its first step."""
    checkpoint_seconds: float = 30.0
    """Training between two checkpoints; it is longer if writing one takes long (`interval`)."""
    saving: float = 1.0
    """Writing a checkpoint of a task."""
    preemptions: float = 0.0
    """Preemptions per worker-hour."""
    waiting: float = 0.0
    """From a preemption until there is another worker."""

    @property
    def rate(self) -> float:
        """Preemptions per worker-second."""
        return self.preemptions / _HOUR

    @property
    def interval(self) -> float:
        """Seconds of training between two checkpoints."""
        return pause(self.checkpoint_seconds, self.saving)

    @property
    def best_interval(self) -> float:
        """The best time between checkpoints, to first order [Young1974]: sqrt(2 saving / rate)."""
        return math.sqrt(2 * self.saving / self.rate) if self.rate else math.inf

    def undisturbed(self, training: float) -> float:
        """Return the seconds that a task with this much training takes if nothing preempts it."""
        return self.starting + training + self._checkpoints(training) * self.saving

    def spent(self, training: float) -> Spent:
        """Return the expected worker-seconds of a task with this much training.

        A task needs n stretches of training, of length tau but for the last, and saves after each
        (c). A stretch without preemption (rate r) needs (e^(r (tau + c)) - 1) / r on average, and
        e^(r u) times that if each of its repetitions begins with a start (u).
        """
        count = self._checkpoints(training)
        saving = count * self.saving
        if not self.rate:
            return Spent(training, self.starting, saving, 0.0)
        last = training - (count - 1) * self.interval
        stretches = (count - 1) * math.expm1(self.rate * (self.interval + self.saving))
        stretches += math.expm1(self.rate * (last + self.saving))
        begin = self.rate * self.starting
        total = (math.exp(begin) * stretches + math.expm1(begin)) / self.rate
        return Spent(training, self.starting, saving, total - self.undisturbed(training))

    def least(self, tasks: Sequence[float]) -> float:
        """Return a lower bound of the expected seconds until all tasks are done.

        They are at least the work divided by the number of workers, and at least the longest task.
        """
        each = [self.spent(training).total for training in tasks]
        return max(math.fsum(each) / self.workers, max(each))

    def simulate(self, tasks: Sequence[float], seed: int) -> tuple[float, float]:
        """Simulate a study; return the seconds until its end, and the worker-seconds.

        The longest task begins first. A preempted task is the next to begin, on any worker.
        """
        draw = random.Random(seed)
        waiting, idle = deque(sorted(tasks, reverse=True)), self.workers
        events: list[tuple[float, int, float]] = []  # when, workers that become idle, training left
        now = ended = paid = 0.0
        while True:
            while waiting and idle:
                training, idle = waiting.popleft(), idle - 1
                needed = self.undisturbed(training)
                preempted = draw.expovariate(self.rate) if self.rate else math.inf
                paid += min(needed, preempted)
                if preempted >= needed:
                    ended = max(ended, now + needed)
                    heapq.heappush(events, (now + needed, 1, 0.0))
                    continue
                stretch = self.interval + self.saving
                saved = max(0.0, (preempted - self.starting) // stretch) * self.interval
                heapq.heappush(events, (now + preempted, 0, training - saved))
                heapq.heappush(events, (now + preempted + self.waiting, 1, 0.0))
            if not events:
                return ended, paid
            now, freed, left = heapq.heappop(events)
            idle += freed
            if left:
                waiting.appendleft(left)

    def _checkpoints(self, training: float) -> int:
        """Return how many checkpoints a task with this much training writes, one at its end."""
        return max(1, math.ceil(training / self.interval))


class StudyCost(NamedTuple):
    """The expected time and cost of a study, in seconds."""

    tasks: int
    spent: Spent  # by all workers together
    least: float  # lower bound of the expected time until its end
    times: tuple[float, float, float]  # until its end: the mean, and 5 % and 95 % of simulations


def estimate(tasks: Sequence[float], conditions: Conditions) -> StudyCost:
    """Estimate a study of tasks, given by their seconds of training.

    Raise a ValueError if tasks are preempted too often to be simulated.
    """
    try:
        each = [conditions.spent(training) for training in tasks]
        spent = Spent(*map(math.fsum, zip(*each, strict=True)))
        starts = len(tasks) + conditions.rate * spent.total
    except OverflowError:  # hardly any task gets from its start to a checkpoint
        starts = math.inf
    if starts > _MOST_STARTS:
        raise ValueError(
            f"expected at most {_MOST_STARTS:,.0f} starts of tasks, got {starts:,.0f} because of "
            "preemption: give fewer --preemptions, or a shorter --starting or --checkpoint-seconds"
        )
    count = max(1, min(_SIMULATIONS, int(_MOST_STARTS / starts)))
    ends = sorted(conditions.simulate(tasks, seed)[0] for seed in range(count))
    low, high = ends[int(0.05 * count)], ends[int(0.95 * count)]
    times = math.fsum(ends) / count, low, high
    return StudyCost(len(tasks), spent, conditions.least(tasks), times)
