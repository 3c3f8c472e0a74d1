"""Functions of tensors traced once and compiled, so that small operations run as few kernels."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from unweave.kernels import first_line


@functools.cache
def available() -> bool:
    """Whether functions can be compiled for a GPU so that the same ones give the same bits."""
    found = torch.cuda.is_available() and importlib.util.find_spec("triton")
    return bool(found) and hasattr(_config(), "deterministic")


def fused(function: Callable[..., Any], wanted: bool) -> Callable[..., Any]:
    """The function compiled, if that is wanted and can be done here; else as it is."""
    return Compiled(function) if wanted and available() else function


class Compiled:
    """A function of trees of tensors as a program, made at the first call for tensors like its own.

    What the function does to tensors is written down by running it on tensors without numbers; so
    it may map, differentiate and call our kernels, but not read a number of a tensor. What it
    leaves in caches is made beforehand by running it on real ones.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._program: Callable[..., Sequence[Tensor]] | None = None
        self._shape: pytree.TreeSpec | None = None  # of the result

    def __call__(self, *trees: Any) -> Any:
        """What the function gives."""
        inputs, spec = pytree.tree_flatten(trees)
        if self._program is None:
            self._program = self._made(inputs, spec)
        with torch.no_grad():
            results = list(self._program(*inputs))
        assert self._shape is not None
        return pytree.tree_unflatten(results, self._shape)

    def _made(self, inputs: list[Tensor], spec: pytree.TreeSpec) -> Callable[..., Sequence[Tensor]]:
        """The program, or where none can be made the function itself, with a warning."""

        def flat(*tensors: Tensor) -> list[Tensor]:
            given = pytree.tree_unflatten(list(tensors), spec)
            results, self._shape = pytree.tree_flatten(self._function(*given))
            return results

        try:
            return _compiled(flat, inputs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a part of torch that changes from version to version
            why = first_line(error)
            warnings.warn(f"steps are not compiled, which is slower: {why}", stacklevel=2)
            return torch.enable_grad()(flat)


def _compiled(
    flat: Callable[..., list[Tensor]], inputs: list[Tensor]
) -> Callable[..., Sequence[Tensor]]:
    from torch._inductor import compile as inductor
    from torch.fx.experimental.proxy_tensor import make_fx

    flat(*[tensor.clone() for tensor in inputs])
    traced = make_fx(flat, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    with torch.no_grad(), _config().patch(deterministic=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about precisions and algorithms
        program: Callable[..., Sequence[Tensor]] = inductor(traced, list(inputs))
        program(*[tensor.clone() for tensor in inputs])  # kernels are built at the first call
    return program


def _config() -> Any:
    from torch._inductor import config

    return config
