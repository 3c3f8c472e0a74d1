"""Where runs are trained: on this machine, on a Ray cluster, or on a Slurm cluster."""

import re
from typing import Annotated, cast

from pydantic import Field

from unweave.core.assignments import override
from unweave.core.hints import nearest
from unweave.core.lazy import public_names
from unweave.core.spec import members
from unweave.executors.local import Local as Local
from unweave.executors.ray import Ray as Ray
from unweave.executors.slurm import Slurm as Slurm

__all__ = public_names(__name__)

AnyExecutor = Annotated[Local | Ray | Slurm, Field(discriminator="kind")]


def executor_from(text: str, lanes: int | None = None) -> AnyExecutor:
    """Read an executor: KIND, or KIND:field=value,...; raise a ValueError if it cannot work here.

    >>> executor_from("local:processes=2", lanes=4)
    Local(processes=2, lanes=4, tries=3)
    """
    kind, _, rest = text.partition(":")
    known = members(AnyExecutor)
    if kind not in known:
        raise ValueError(f"--on: {kind!r} is not known: {nearest(kind, known)}")
    fields = [item for item in re.split(r",(?=\w+=)", rest) if item]  # values may have commas
    fields += [f"lanes={lanes}"] if lanes else []
    try:
        executor = cast(AnyExecutor, override(known[kind], fields))
    except ValueError as error:
        raise ValueError(f"--on {text}: {error}") from None
    executor.check()
    return executor
