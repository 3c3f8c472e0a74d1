"""Encoders whose logits leave a layer before the other outputs, as [Esmaeili2019] print them."""

import pytest
import torch

import unweave as uw
from datasets import CPU, LATENTS, SMALL, small_run
from printed_layers import NORMALISED, table
from unweave.core.noise import Noise
from unweave.training import Lanes

# Tables 3, 4, 5: the trunk, and the hidden layer that the logits do not read.
TRUNKS = {
    3: ((1, 28, 28), ["fc 400 relu"], 400, "fc 400 relu"),
    4: ((1, 64, 64), ["fc 1200 relu", "fc 1200 relu"], 1200, "fc 800 relu"),
    5: ((3, 64, 64), NORMALISED, 1024, "fc 512 relu"),
}
STYLE, WHAT, FLAGS = uw.Gaussian(3), uw.Categorical(4), uw.Bernoulli(2)
TREES = [
    uw.Product(style=STYLE, what=WHAT),
    uw.Product(what=WHAT, style=STYLE),
    uw.Product(what=WHAT, inner=uw.Product(style=STYLE, flags=FLAGS), more=uw.Gaussian(1)),
]


@pytest.mark.parametrize("latent", TREES, ids=lambda latent: "-".join(latent.blocks))
@pytest.mark.parametrize("number", TRUNKS)
def test_logits_leave_the_encoder_a_layer_before_the_others(number, latent):
    shape, rows, width, hidden = TRUNKS[number]
    encoder = uw.Esmaeili2019(table=number).encoder(shape, latent.discrete_outputs).double().eval()
    count = sum(latent.discrete_outputs)
    assert table(encoder.trunk) == rows
    assert table(encoder.head) == [hidden, f"fc {latent.outputs - count}"]
    assert (encoder.logits.in_features, encoder.logits.out_features) == (width, count)
    x = torch.rand(2, *shape, dtype=torch.float64)
    features = encoder.trunk(x)
    raw = encoder(x)
    mask = torch.tensor(latent.discrete_outputs)
    torch.testing.assert_close(raw[:, mask], encoder.logits(features))
    torch.testing.assert_close(raw[:, ~mask], encoder.head(features))
    q = latent.posterior(raw)
    probabilities = encoder.logits(features)[:, :4].softmax(-1)  # WHAT comes first in each tree
    torch.testing.assert_close(q.parts["what"].mean, probabilities)


@pytest.mark.parametrize("number", TRUNKS)
def test_encoders_of_one_kind_of_variable_are_plain_stacks(number):
    shape, rows, _, hidden = TRUNKS[number]
    network = uw.Esmaeili2019(table=number)
    assert table(network.encoder(shape, STYLE.discrete_outputs)) == [*rows, hidden, "fc 6"]
    assert table(network.encoder(shape, WHAT.discrete_outputs)) == [*rows, "fc 4"]


@pytest.mark.parametrize("latent", LATENTS)
def test_a_latent_space_says_which_outputs_are_logits(latent):
    """Those that change what discrete variables are: by the derivative of every variable's mean."""
    raw = Noise(0).normal((latent.outputs,), "raw", torch.float64).requires_grad_()
    q = latent.posterior(raw)
    for discrete, columns in zip(latent.discrete, latent.columns, strict=True):
        weights = torch.arange(1.0, 1 + columns.stop - columns.start)
        (slope,) = torch.autograd.grad((q.mean[columns] * weights).sum(), raw, retain_graph=True)
        flags = torch.tensor(latent.discrete_outputs)
        assert (flags[slope != 0] == discrete).all()


def test_early_logits_train_in_lanes_as_alone():
    runs = [
        small_run(network=uw.Esmaeili2019(table=3), latent=TREES[1], seed=seed) for seed in (0, 1)
    ]
    lanes, *alone = (Lanes(each, SMALL.load(CPU), CPU) for each in (runs, runs[:1], runs[1:]))
    assert lanes.vectorised
    for each in (lanes, *alone):
        for _ in range(3):
            each.advance()
    for number, one in enumerate(alone):
        for name, value in one.state.parameters.items():
            torch.testing.assert_close(lanes.state.parameters[name][number], value[0])
