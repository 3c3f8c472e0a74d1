"""Exported encoders and decoders compute what the model computes, for all networks."""

import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import unweave as uw
from datasets import LATENTS, LIKELIHOODS
from untrained import untrained
from unweave.explorer import onnx_export
from unweave.explorer.onnx_export import export_decoder, export_encoder

BATCHES = (1, 7)
TREE = uw.Product(
    style=uw.Gaussian(2, encoding="full"),
    what=uw.Product(shape=uw.Categorical(3), flags=uw.Bernoulli(2), size=uw.StudentT(1)),
)


def images(channels, *sides, count=7):
    values = np.random.default_rng(0).random((count, channels, *sides))
    return (255 * values).astype(np.uint8)


def vectors(count=7, size=5):
    return np.random.default_rng(0).normal(30, 4, (count, size))


MODULES = uw.Modules(
    encoder=lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(5), nn.Linear(5, 6), nn.SELU()),
    decoder=lambda: nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 5)),
)
# Networks of other sizes and of users; tests/browser opens every network of the papers.
NETWORKS = {
    "dcgan-32": (images(1, 32, 32), {"network": uw.DCGAN(4, first_norm=False)}),
    "conv": (images(2, 25, 18), {"network": uw.Conv(4, 8), "latent": TREE}),
    "mlp": (vectors(), {"network": uw.MLP((8, 6), "tanh"), "latent": TREE}),
    "modules": (vectors(), {"network": MODULES, "latent": uw.Gaussian(3)}),
}


def run(content, **inputs):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def assert_close(got, expected):
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 1e-5 * np.abs(expected).max()


def assert_encodes(model, array):
    content = export_encoder(model)
    for count in BATCHES:
        x = model.schema.scaling.apply(model.observations(range(count))).numpy()
        assert_close(run(content, x=x), model.encode(array[:count]))
    return content


def assert_decodes(model):
    content, scaling = export_decoder(model), model.schema.scaling
    for count in BATCHES:
        z = np.random.default_rng(1).normal(size=(count, model.run.latent.size))
        z, noise = z.astype(np.float32), model.draw_noise(count, seed=2)
        decoded = run(content, z=np.concatenate([z, noise], 1))
        assert_close(scaling.invert(decoded), model.decode(z, noise))
    return content


@pytest.mark.parametrize("name", NETWORKS)
def test_onnxruntime_computes_what_the_model_does(name):
    array, fields = NETWORKS[name]
    model = untrained(array, **fields)
    assert_encodes(model, array)
    assert_decodes(model)


def test_the_mean_of_every_posterior_is_exported():
    array, blocks = vectors(), {f"block{n}": latent for n, latent in enumerate(LATENTS)}
    assert_encodes(untrained(array, latent=uw.Product(**blocks), network=uw.MLP((4,))), array)


@pytest.mark.parametrize("likelihood", {each.kind: each for each in LIKELIHOODS}.values(), ids=str)
def test_the_mean_of_every_likelihood_is_exported(likelihood):
    rng, counts = np.random.default_rng(0), likelihood.counts
    array = rng.poisson(3.0, (7, 5)) if counts else rng.random((7, 5))
    fields = {"likelihood": likelihood, "network": uw.MLP((4,)), "latent": uw.Gaussian(2)}
    model = untrained(array, scale="counts" if counts else "none", **fields)
    assert_decodes(model)
    if counts:  # whose encoder reads log(1 + x)
        assert_encodes(model, array)


def test_a_file_is_small_and_says_nothing_of_where_it_came_from():
    array = images(1, 64, 64)
    model = untrained(array, network=uw.Kim2018(), latent=uw.Gaussian(10))
    parameters = sum(p.numel() for p in model.trained.nets.model.decoder.parameters())
    content = export_decoder(model)
    assert len(content) < 4 * parameters + 4_000
    assert b".py" not in content
    proto = onnx.load_from_string(content)
    assert max(each.version for each in proto.opset_import) <= 21
    assert all(not node.doc_string and not node.metadata_props for node in proto.graph.node)
    assert all(not each.external_data for each in proto.graph.initializer)
    kinds = [node.op_type for node in proto.graph.node]
    assert kinds.count("ConvTranspose") == 4
    assert content == export_decoder(model)


def test_an_export_does_not_change_the_model():
    array = images(1, 64, 64)
    model = untrained(array, network=uw.Kim2018(), latent=uw.Gaussian(2))
    before = model.encode(array)
    export_encoder(model)
    assert np.array_equal(model.encode(array), before)
    assert all(getattr(layer, "fused", True) for layer in model.trained.nets.modules())


def test_a_wrong_export_is_refused(monkeypatch):
    model = untrained(vectors(), network=uw.MLP((3,)), latent=uw.Gaussian(2))
    graph = onnx_export._graph

    def shifted(*arguments):
        proto = graph(*arguments)
        (bias,) = (each for each in proto.graph.initializer if each.dims == [4])
        values = onnx.numpy_helper.to_array(bias) + np.float32(1e-3)
        bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
        return proto

    monkeypatch.setattr(onnx_export, "_graph", shifted)
    with pytest.raises(ValueError, match="expected the exported encoder to agree with PyTorch"):
        export_encoder(model)


class FirstHalf(nn.Module):
    """Computes something that depends on values of its input, so that no graph can."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 4)

    def forward(self, x):
        y = self.linear(x)
        return y if float(y.detach().sum()) > 1e9 else 2 * y


def test_a_network_that_cannot_be_exported_is_refused_with_the_reason():
    network = uw.Modules(FirstHalf, lambda: nn.Linear(2, 5))
    model = untrained(vectors(), network=network, latent=uw.Gaussian(2))
    with pytest.raises(ValueError, match=r"the encoder .* cannot be exported to ONNX"):
        export_encoder(model)


def test_missing_packages_are_named(monkeypatch):
    model = untrained(vectors(), network=uw.MLP((4,)), latent=uw.Gaussian(2))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"needs onnxruntime: pip install 'unweave\[explorer\]'"):
        export_encoder(model)


def test_the_device_of_a_model_does_not_matter(monkeypatch):
    model = untrained(vectors(), network=uw.MLP((4,)), latent=uw.Gaussian(2))
    moved = []
    to = type(model.trained).to
    monkeypatch.setattr(
        type(model.trained), "to", lambda self, device: moved.append(device) or to(self, device)
    )
    export_decoder(model)
    assert moved == [torch.device("cpu")]
