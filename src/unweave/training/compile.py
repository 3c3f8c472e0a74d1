"""Compile functions of tensors, so that many small operations become few kernels."""

import functools
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from unweave.core.text import error_line


@functools.cache
def available() -> bool:
    """Return whether functions can be compiled for a GPU with reproducible results."""
    usable = torch.cuda.is_available() and importlib.util.find_spec("triton")
    return bool(usable) and hasattr(_config(), "deterministic")


def compile_if(wanted: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function compiled, if that is wanted and possible here; otherwise unchanged."""
    return Compiled(function) if wanted and available() else function


class Compiled:
    """A function of trees of tensors, compiled at its first call for tensors of those shapes.

    The function is traced with fake tensors. It may use vmap, autograd and our kernels, but may not
    read the value of a tensor. It is called once with real tensors first, to fill its caches.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._program: Callable[..., Sequence[Tensor]] | None = None
        self._result_tree: pytree.TreeSpec | None = None

    def __call__(self, *trees: Any) -> Any:
        """Call the compiled function."""
        inputs, spec = pytree.tree_flatten(trees)
        if self._program is None:
            self._program = self._compile(inputs, spec)
        with torch.no_grad():
            results = list(self._program(*inputs))
        assert self._result_tree is not None
        return pytree.tree_unflatten(results, self._result_tree)

    def _compile(
        self, inputs: list[Tensor], spec: pytree.TreeSpec
    ) -> Callable[..., Sequence[Tensor]]:
        """Return the compiled function; if it cannot be compiled, warn and return the original."""

        def flat(*tensors: Tensor) -> list[Tensor]:
            arguments = pytree.tree_unflatten(list(tensors), spec)
            results, self._result_tree = pytree.tree_flatten(self._function(*arguments))
            return results

        try:
            return _compile_flat(flat, inputs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # these parts of torch change between versions
            why = error_line(error)
            warnings.warn(f"steps are not compiled, which is slower: {why}", stacklevel=2)
            return torch.enable_grad()(flat)


def _compile_flat(
    flat: Callable[..., list[Tensor]], inputs: list[Tensor]
) -> Callable[..., Sequence[Tensor]]:
    from torch._inductor import compile as inductor
    from torch.fx.experimental.proxy_tensor import make_fx

    flat(*[tensor.clone() for tensor in inputs])
    traced = make_fx(flat, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    with torch.no_grad(), _config().patch(deterministic=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about precisions and algorithms
        program: Callable[..., Sequence[Tensor]] = inductor(traced, list(inputs))
        program(*[tensor.clone() for tensor in inputs])  # the first call builds the kernels
    return program


def _config() -> Any:
    from torch._inductor import config

    return config
