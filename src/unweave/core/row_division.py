"""Divide the rows of a batch among the processes that train one run.

Every process computes the loss of the whole batch, so objectives know nothing of this. Networks are
applied to the rows of this process alone, and what they return is gathered. A tensor is therefore
*whole*, with equal values in all processes, or it has the *own* rows of this process.

The gradient by a whole tensor is that of the loss, equal in all processes; the gradient by own rows
is W times that of the loss, for W processes. So the mean over processes of the gradients by a
parameter is the gradient of the loss, whether whole tensors or own rows depend on the parameter.
This fixes the backward passes: those of gathering and of taking own rows are each other up to W,
and the mean over processes is its own. Second derivatives, as in a gradient penalty, are right too.

Nothing here does anything outside `divided_rows`.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils import _pytree as pytree

from unweave.core.parallel import WorkerKilled

N = TypeVar("N")
P = ParamSpec("P")
R = TypeVar("R")


class _Place(Enum):
    """Where a function is called: in an undivided step, in a loss, or on own rows."""

    UNDIVIDED = 0
    LOSS = 1
    OWN_ROWS = 2


_place = _Place.UNDIVIDED


@contextlib.contextmanager
def _at(place: _Place) -> Iterator[None]:
    global _place
    before, _place = _place, place
    try:
        yield
    finally:
        _place = before


def divided_rows() -> contextlib.AbstractContextManager[None]:
    """Inside this block, all processes compute losses together, each with its own rows."""
    return _at(_Place.LOSS)


def on_own_rows() -> bool:
    """Return whether the rows that a network sees here are those of this process alone."""
    return _place is _Place.OWN_ROWS


def divides(x: Tensor) -> bool:
    """Return whether the rows of a whole tensor are divided among processes here.

    If they cannot be divided evenly, every process computes all of them.
    """
    return _place is _Place.LOSS and len(x) % dist.get_world_size() == 0


def all_rows(own: int) -> int:
    """Return how many rows all processes have, given how many this one has."""
    return own * dist.get_world_size()


def map_own_rows(function: Callable[[Tensor], R], x: Tensor) -> R:
    """Call a function with the own rows of a whole tensor; the result has own rows too."""
    own = own_rows(x)
    with _at(_Place.OWN_ROWS):
        return function(own)


def rowwise(
    method: Callable[Concatenate[N, Tensor, P], R],
) -> Callable[Concatenate[N, Tensor, P], R]:
    """Let a method of networks see own rows, and return the rows of all processes.

    Its first argument after self has rows, and so has the tensor that it returns, or each of
    several; every row of the result depends on the same row of the argument. Batch normalisation is
    the exception; it gathers its statistics itself.
    """

    @functools.wraps(method)
    def call(networks: N, x: Tensor, /, *others: P.args, **named: P.kwargs) -> R:
        if not divides(x):
            return method(networks, x, *others, **named)
        result = map_own_rows(lambda own: method(networks, own, *others, **named), x)
        return cast(R, pytree.tree_map(gather_rows, result))

    return call


def own_rows(x: Tensor) -> Tensor:
    """Return the rows of a whole tensor (B, ...) that are this process's, (B / W, ...)."""
    rows: Tensor = _OwnRows.apply(x)  # type: ignore[no-untyped-call]
    return rows


def gather_rows(x: Tensor) -> Tensor:
    """Return the whole tensor (B, ...) of which each process has own rows (B / W, ...)."""
    whole: Tensor = _GatherRows.apply(x)  # type: ignore[no-untyped-call]
    return whole


def mean_of_processes(x: Tensor) -> Tensor:
    """Return the mean over processes of a tensor that is computed from own rows."""
    mean: Tensor = _MeanOfProcesses.apply(x)  # type: ignore[no-untyped-call]
    return mean


@contextlib.contextmanager
def other_processes() -> Iterator[None]:
    """Inside this block, failed collective operations raise `WorkerKilled`, a one-line error."""
    try:
        yield
    except RuntimeError as error:
        raise WorkerKilled(
            "lost contact with another process that trains this run; look for its message, and "
            "run the command again to resume"
        ) from error


class _Linear(torch.autograd.Function):
    """A linear map of the rows of tensors."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Keep nothing: the derivative of a linear map depends on no input."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int], x: Tensor) -> tuple[Tensor, int]:
        return cls.apply(x.movedim(in_dims[0], 1)), 1  # type: ignore[no-untyped-call]


class _OwnRows(_Linear):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.chunk(dist.get_world_size())[dist.get_rank()].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gather_rows(gradients[0]) / dist.get_world_size()


class _GatherRows(_Linear):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        whole = x.new_empty((dist.get_world_size() * len(x), *x.shape[1:]))
        with other_processes():
            dist.all_gather(list(whole.chunk(dist.get_world_size())), x.contiguous())
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return own_rows(gradients[0]) * dist.get_world_size()


class _MeanOfProcesses(_Linear):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        with other_processes():
            dist.all_reduce(total)
        return total / dist.get_world_size()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return mean_of_processes(gradients[0])
