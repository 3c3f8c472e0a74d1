"""Export encoders and decoders to ONNX, and check every export against PyTorch."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.core.notes import quietly
from unweave.evaluation.model import FittedModel
from unweave.evaluation.stacked import StackedModels
from unweave.latents import prior_samples
from unweave.networks.layers import use_plain_convolutions
from unweave.objectives import Nets

_PACKAGES = ("onnx", "onnxruntime", "onnxscript")
_OPSET = 18  # onnxruntime-web reads up to 21; the exporter writes 18 without conversion
_EXAMPLES = 2  # an example batch of 1 would be taken for the only size
_CHECKED = (1, 2, 5)  # sizes of batches
_TOLERANCE = 1e-5  # of the largest value
_COUNTS = 20.0  # a network of counts is checked with counts below this

Compute = Callable[[Nets, Tensor], Tensor]


class _Part(NamedTuple):
    """A function of the networks that is exported, with the names of its input and output."""

    name: str
    input: str
    output: str
    compute: Compute


_ENCODER = _Part("encoder", "x", "mean", lambda nets, x: nets.model.encode(x).mean)
_DECODER = _Part("decoder", "z", "x", lambda nets, z: nets.model.decode(z).mean)


def export_encoder(model: FittedModel) -> bytes:
    """Return the encoder as ONNX: from "x" (n, *shape) to "mean" (n, D), the mean of q(z|x).

    Observations are scaled as the network sees them, after `schema.scaling.apply`.
    """
    return _export(model, _ENCODER, _observations(model))


def export_decoder(model: FittedModel) -> bytes:
    """Return the decoder as ONNX: from "z" (n, D + noise) to "x" (n, *shape), E[x|z].

    The result is scaled as the network sees values, before `schema.scaling.invert`.
    """
    return _export(model, _DECODER, _codes(model))


def _observations(model: FittedModel) -> Tensor:
    """Draw values that the encoder may see, enough to check it."""
    schema, noise = model.schema, Noise(0, 0, "export")
    shape = (max(_CHECKED), *schema.shape)
    if schema.scaling.method == "counts":
        return (_COUNTS * noise.uniform(shape, "counts").square()).floor()
    if schema.bounded:
        return noise.uniform(shape, "bounded")
    return noise.normal(shape, "standard")


def _codes(model: FittedModel) -> Tensor:
    """Draw codes of the prior, with the decoder's noise if any, enough to check it."""
    prior, count = model.prior(), max(_CHECKED)
    codes = prior_samples(prior, count, Noise(0, 0, "export", model.device)).cpu()
    return torch.cat([codes, torch.from_numpy(model.draw_noise(count))], 1)


def _export(model: FittedModel, part: _Part, inputs: Tensor) -> bytes:
    """Export a part of the model and check it at several sizes of the batch."""
    check_packages()
    trained = model.trained.to(torch.device("cpu"))
    expected = trained.alone(0, part.compute, inputs).numpy()
    try:
        graph = _graph(trained, part, inputs[:_EXAMPLES])
    except torch.onnx.OnnxExporterError as error:
        raise ValueError(
            f"the {part.name} of run {model.run.digest} cannot be exported to ONNX, which the "
            f"explorer needs: {_reason(error)}"
        ) from error
    content = _stripped(graph)
    session = _session(content)
    for count in _CHECKED:
        results = session.run(None, {part.input: inputs[:count].numpy()})
        _check(part.name, results[0], expected[:count], np.abs(expected).max())
    return content


def missing_package() -> str | None:
    """Return a package that an export needs and that is not installed, if there is one."""
    return next((name for name in _PACKAGES if find_spec(name) is None), None)


def check_packages() -> None:
    """Say how to install what an export needs, if it is missing."""
    if package := missing_package():
        raise ValueError(
            f"the explorer runs models as ONNX, which needs {package}: pip install "
            "'unweave[explorer]'"
        )


class _Exported(nn.Module):
    """A function of the networks of one model, as a module."""

    def __init__(self, trained: StackedModels, compute: Compute) -> None:
        super().__init__()
        self.nets, self.compute = copy.deepcopy(trained.nets), compute
        weights = {name: value[0] for name, value in trained.weights.items()}
        self.nets.load_state_dict(weights, strict=False)
        use_plain_convolutions(self.nets)

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(self.nets, x)


def _graph(trained: StackedModels, part: _Part, examples: Tensor) -> Any:
    """Export a part as a graph with any size of the batch."""
    module = _Exported(trained, part.compute).eval()
    with torch.no_grad(), quietly("torch"), _operators_listed_once():
        program = torch.onnx.export(
            module,
            (examples,),
            dynamo=True,
            input_names=[part.input],
            output_names=[part.output],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            opset_version=_OPSET,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def _reason(error: BaseException) -> str:
    """Return the first line of the original error in a chain."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().split("\n")[0] or type(error).__name__


@contextlib.contextmanager
def _operators_listed_once() -> Iterator[None]:
    """Let exports share torch's list of operators, which takes as long to build as the rest.

    An export also looks once for operators that were added in C++, not again for each namespace,
    and decomposes only programs with operators that ONNX lacks.
    """
    registry: Any = import_module("torch.onnx._internal.exporter._registration").ONNXRegistry
    passes: Any = import_module("torch.onnx._internal.exporter._fx_passes")
    utils: Any = import_module("torch._export.utils")
    look, decompose = "_materialize_cpp_cia_ops", "decompose_with_registry"
    with (
        _replaced(registry, "from_torchlib", lambda old: staticmethod(partial(_operators, old))),
        _replaced(utils, look, cache) if hasattr(utils, look) else contextlib.nullcontext(),
        _replaced(passes, decompose, lambda old: partial(_decompose_if_needed, old)),
    ):
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a function of a class or module by a change of it inside this block."""
    old = getattr(owner, name)
    setattr(owner, name, change(old))
    try:
        yield
    finally:
        setattr(owner, name, old)


def _decompose_if_needed(decompose: Callable[..., Any], program: Any, registry: Any) -> Any:
    known: Any = import_module("torch.onnx._internal.exporter._decomp")
    used = {node.target for node in program.graph.nodes if node.op == "call_function"}
    enough = used <= set(known.get_onnx_implemented_overloads(registry))
    return program if enough else decompose(program, registry)


@cache
def _operators(method: Callable[..., Any], **options: int) -> Any:
    return method(**options)


def _stripped(model: Any) -> bytes:
    """Return the graph without metadata, such as the lines of code it came from."""
    model.ClearField("metadata_props")
    model.ClearField("doc_string")
    graph = model.graph
    for field in ("value_info", "doc_string", "metadata_props", "quantization_annotation"):
        graph.ClearField(field)
    for each in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        each.ClearField("doc_string")
        each.ClearField("metadata_props")
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _session(content: bytes) -> Any:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _check(name: str, got: NDArray[Any], expected: NDArray[Any], largest: float) -> None:
    """Refuse an export whose results are not those of PyTorch."""
    if got.shape != expected.shape:
        raise ValueError(
            f"expected the exported {name} to return {expected.shape}, got {got.shape}: the "
            "network cannot be explored in a browser"
        )
    apart = float(np.abs(got - expected).max())
    if not apart <= _TOLERANCE * largest:
        raise ValueError(
            f"expected the exported {name} to agree with PyTorch to {_TOLERANCE:g} of its largest "
            f"value {largest:.3g}, got a difference of {apart:.3g} for {len(got)} at once: the "
            "network cannot be explored in a browser"
        )
