"""`Modules`: any pair of `torch.nn.Module`s as encoder and decoder."""

from __future__ import annotations

import copy
import hashlib
import sys
from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any, Literal, cast

import torch
from pydantic_core import core_schema
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from unweave.core.code_hash import is_outside, source_hash
from unweave.core.noise import seeded
from unweave.core.parts import (
    UNNAMED,
    ImportedByName,
    find_object,
    import_module,
    part_name,
    warn_changed,
)
from unweave.core.spec import spec, tag
from unweave.networks.base import Outputs, Shape
from unweave.networks.initialise import LAYERS
from unweave.networks.layers import BatchNorm

_PROBE = 2  # observations with which a module is tried
_STRUCTURE = "structure:"

# Modules and factories of this process by identity, so that stored runs find them again.
_known: dict[str, Callable[[], nn.Module]] = {}


class UserModule(nn.Module):
    """A user's module inside a network, which maps (B, *shape); `vectorises`: also under `vmap`."""

    def __init__(self, module: nn.Module, shape: Shape, vectorises: bool) -> None:
        super().__init__()
        self.module, self.shape, self.vectorises = module, shape, vectorises

    def forward(self, x: Tensor) -> Tensor:
        """Call the module."""
        y: Tensor = self.module(x)
        return y

    @property
    def mixes_rows(self) -> bool:
        """Whether a row of the result depends on several rows, as with torch's batch normalisation.

        Our own normalisation is left out, because it knows the rows of other processes.
        """
        trial = _Trial(copy.deepcopy(self.module).cpu(), self.shape)
        for layer in trial.module.modules():
            layer.training &= not isinstance(layer, BatchNorm)
        return trial.mixes_rows


class ModuleSource(ImportedByName):
    """A module, or a function without arguments that builds one, and the text that identifies it.

    A function or class that can be imported is identified by its path and a hash of its code and of
    the module that it builds, `module:name@hash`; anything else by the latter hash alone. The text
    stands in `run.json`.
    """

    def __init__(self, source: ModuleSource | nn.Module | Callable[[], nn.Module] | str) -> None:
        if isinstance(source, (str, ModuleSource)):
            self.identity = str(source)
            return
        if not isinstance(source, nn.Module) and not callable(source):
            raise ValueError(
                "expected a torch.nn.Module, or a function without arguments that builds one, got "
                f"{source!r}"
            )
        path = None if isinstance(source, nn.Module) else _import_path(source)
        factory = (lambda: copy.deepcopy(source)) if isinstance(source, nn.Module) else source
        with seeded():
            module = _call(factory)
        if isinstance(source, nn.Module):
            _check_initialised_anew(module)
        structure = _structure(module)
        code = "" if path is None else source_hash(source)  # type: ignore[arg-type]
        self.identity = f"{path}@{code}{structure}" if path else _STRUCTURE + structure
        _known[self.identity] = factory

    def build(self) -> nn.Module:
        """Build the module with torch's random numbers; `initialise` then draws most weights."""
        if self.identity in _known:
            return _call(_known[self.identity])
        advice = "pass the modules again, network=uw.Modules(encoder, decoder)"
        path, at, _ = self.identity.partition("@")
        if not at:
            raise ValueError(
                f"this network was built from modules that are not known here ({self.identity}); "
                f"{advice}, before or while loading the run"
            )
        factory = _find_factory(path, f"was it renamed? {advice}")
        if type(self)(factory).identity != self.identity:
            warn_changed(path)
        return _call(factory)

    @classmethod
    def import_named(cls, name: str) -> str:
        """Import a function or class by "module:name" and return the identity of what it builds."""
        if name in _known:
            return name
        import_module(name.partition(":")[0])
        advice = "give a function without arguments that builds the module, as in my_nets:encoder"
        return cls(_find_factory(name, advice)).identity

    @property
    def import_path(self) -> str:
        """`module:name`, or "" if the module cannot be imported by a name."""
        path, at, _ = self.identity.partition("@")
        return path if at else ""

    @property
    def argument(self) -> str:
        """The name to give on the command line, or `UNNAMED`."""
        return self.import_path or UNNAMED

    def __str__(self) -> str:
        return self.identity

    def __repr__(self) -> str:
        return repr(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleSource) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Accept what the constructor accepts; the JSON form is the identity."""
        return core_schema.no_info_plain_validator_function(
            cls, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )


class EncoderSource(ModuleSource):
    """The source of an encoder; calling it builds the encoder, as `BaseNetwork.encoder` does."""

    def __call__(self, shape: Shape, outputs: Outputs) -> nn.Module:
        """Build the encoder and check that it maps (B, *shape) to (B, len(outputs))."""
        return _wrap(self, "encoder", shape, (len(outputs),), "the latent space needs them")


class DecoderSource(ModuleSource):
    """The source of a decoder; calling it builds the decoder, as `BaseNetwork.decoder` does."""

    def __call__(self, size: int, shape: Shape) -> nn.Module:
        """Build the decoder and check that it maps (B, size) to (B, *shape)."""
        return _wrap(self, "decoder", (size,), shape, "the likelihood reads that shape")


@spec
class Modules:
    """Any two `torch.nn.Module`s as encoder and decoder.

    Each is a function without arguments that builds the module, or a module, which is copied.
    Prefer a function that can be imported, so that stored runs can be loaded anywhere. The encoder
    maps (B, *shape) to the (B, outputs) that the latent space needs, `latent.outputs`; the decoder
    maps codes (B, D) to what the likelihood reads, `likelihood.raw_shape(shape)`.

    Linear and convolutional layers are initialised anew for every seed; other parameters and
    buffers start as the function builds them with torch's random numbers from that seed. A module
    that was passed itself cannot be built again, so such parameters must be constants there, as in
    a normalisation. All parameters are trained, so none may be frozen, shared between
    layers or unused. Modules must be deterministic: no dropout. Runs train side by side if
    `torch.func.vmap` can map the modules, and otherwise one after the other.
    """

    encoder: EncoderSource
    """Function that builds the encoder, as module:name."""
    decoder: DecoderSource
    """Function that builds the decoder, as module:name."""
    kind: Literal["modules"] = tag("modules")


def _import_path(factory: Callable[[], nn.Module]) -> str | None:
    """Return `module:name` of a function or class, or None if it cannot be imported by it."""
    if not hasattr(factory, "__qualname__") or factory.__module__ not in sys.modules:
        return None
    name = part_name(factory)
    return name if find_object(name) is factory else None


def _is_factory(value: object, path: str) -> bool:
    """Whether a value is a user's module class, or a function of the module that a path names.

    Nothing else that a file names is ever called.
    """
    if isinstance(value, type):
        return issubclass(value, nn.Module)
    return isinstance(value, FunctionType) and part_name(value) == path and is_outside(value)


def _find_factory(path: str, advice: str) -> Callable[[], nn.Module]:
    """Return the function or class that a path names, or raise a ValueError."""
    factory = find_object(path)
    if not _is_factory(factory, path):
        raise ValueError(
            f"expected a function or a torch.nn.Module class named {path}, got a value of "
            f"type {type(factory).__name__}: {advice}"
        )
    return cast(Callable[[], nn.Module], factory)


def _call(factory: Callable[[], nn.Module]) -> nn.Module:
    module = factory()
    if not isinstance(module, nn.Module):
        raise ValueError(f"expected a torch.nn.Module from {factory!r}, got {module!r}")
    return module


def _initialised(module: nn.Module) -> set[str]:
    """Return the names of the parameters that `initialise` draws."""
    return {
        f"{path}.{name}".lstrip(".")
        for path, layer in module.named_modules()
        if isinstance(layer, LAYERS)
        for name, _ in layer.named_parameters(recurse=False)
    }


def _check_initialised_anew(module: nn.Module) -> None:
    """Refuse a given module if some of its parameters would start the same for every seed."""
    drawn = _initialised(module)
    for name, value in module.named_parameters():
        if name not in drawn and value.numel() and (value != value.flatten()[0]).any():
            layer = type(module.get_submodule(name.rpartition(".")[0])).__name__
            raise ValueError(
                f"the parameter {name} of a {layer} cannot be drawn anew for each seed from a "
                "module that is already built; pass a function that builds the module"
            )


def _structure(module: nn.Module) -> str:
    """Hash layers, their code, names and shapes, and the values that `initialise` keeps."""
    initialised = _initialised(module)
    content, codes = hashlib.sha256(repr(module).encode()), []
    for name, value in module.state_dict().items():
        content.update(f"{name} {tuple(value.shape)}".encode())
        if name not in initialised:
            content.update(value.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
    for kind in {type(layer) for layer in module.modules()}:
        if not kind.__module__.startswith("torch."):
            codes.append(source_hash(kind))
    content.update(" ".join(sorted(codes)).encode())
    return content.hexdigest()[:16]


def _wrap(source: ModuleSource, role: str, before: Shape, after: Shape, why: str) -> nn.Module:
    """Build a module and try it, or raise a ValueError if it does not fit."""
    called = f"{role} {source.import_path}".rstrip()
    with torch.device("cpu"):
        trial = _Trial(source.build().cpu().float(), before)
    if reason := trial.untrainable:
        raise ValueError(f"the {called} {reason}")
    if not isinstance(trial.result, Tensor) or trial.result.shape != (_PROBE, *after):
        got = tuple(trial.result.shape[1:]) if isinstance(trial.result, Tensor) else trial.result
        raise ValueError(
            f"expected the {called} to map (B, {_text(before)}) to (B, {_text(after)}), because "
            f"{why}; got {f'(B, {_text(got)})' if isinstance(got, tuple) else repr(got)}"
        )
    if not trial.deterministic:
        raise ValueError(
            f"the {called} gives different results for the same input; remove dropout and "
            "other random layers"
        )
    if unused := trial.unused:
        raise ValueError(
            f"the {called} does not use its parameter {unused[0]}; remove it, or use it in forward"
        )
    return UserModule(source.build(), before, trial.vectorises)


def _text(shape: Shape) -> str:
    return ", ".join(map(str, shape))


class _Trial:
    """A module called on two simple observations; its own state does not change."""

    def __init__(self, module: nn.Module, shape: Shape) -> None:
        self.module = module.train()
        values = torch.linspace(0, 1, _PROBE).reshape(_PROBE, *[1] * len(shape))
        self.x = values.expand(_PROBE, *shape)

    @cached_property
    def result(self) -> Any:
        """The module's result, or the text of its error."""
        try:
            return self._call(self._state())
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            return f"{type(error).__name__}: {error}"

    @property
    def deterministic(self) -> bool:
        """Whether a second call gives the same result."""
        return torch.equal(self.result, self._call(self._state()))

    @property
    def mixes_rows(self) -> bool:
        """Whether the first row of the result depends on the second observation."""
        first: Tensor = self.result[0]
        self.x = torch.stack([self.x[0]] * _PROBE)
        return not torch.allclose(first, self._call(self._state())[0])

    @property
    def untrainable(self) -> str:
        """Why the parameters cannot be trained, or ""."""
        named = dict(self.module.named_parameters(remove_duplicate=False))
        frozen = [name for name, each in named.items() if not each.requires_grad]
        if frozen:
            return (
                f"has the frozen parameter {frozen[0]} (requires_grad=False), but all parameters "
                "are trained; keep fixed numbers with register_buffer"
            )
        for name, each in self.module.named_parameters():
            tied = [other for other, same in named.items() if same is each and other != name]
            if tied:
                return (
                    f"shares a parameter between {name} and {tied[0]}; keep it in one layer, and "
                    "use that layer twice in forward"
                )
        return ""

    @property
    def unused(self) -> list[str]:
        """The names of the parameters that the result does not depend on."""
        state, names = self._state(), [name for name, _ in self.module.named_parameters()]
        weights = [state[name].requires_grad_() for name in names]
        output = self._call(state).sum()
        if not weights or not output.requires_grad:
            return names
        gradients = torch.autograd.grad(output, weights, allow_unused=True)
        return [name for name, each in zip(names, gradients, strict=True) if each is None]

    @property
    def vectorises(self) -> bool:
        """Whether `vmap` can map the module and its gradient over stacked weights."""
        names = {name for name, _ in self.module.named_parameters()}

        def loss(weights: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            value: Tensor = self._call(weights | buffers).sum()
            return value

        try:
            stacked = {name: torch.stack([value] * 2) for name, value in self._state().items()}
            mapped = vmap(self._call)({name: value.clone() for name, value in stacked.items()})
            weights = {name: value for name, value in stacked.items() if name in names}
            buffers = {name: value for name, value in stacked.items() if name not in names}
            vmap(grad(loss))(weights, buffers)
        except Exception:  # any failure means that lanes must run one after the other
            return False
        return torch.allclose(mapped[0], self.result, rtol=1e-3, atol=1e-4)

    def _call(self, state: dict[str, Tensor]) -> Any:
        return functional_call(self.module, state, (self.x,))

    def _state(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}
