"""Labels: a block told what it is to mean, on a share of the observations, under any objective."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import unweave as uw
from datasets import ADVERSARIAL, CPU, OBJECTIVES, SMALL, nets_and_batch, small_run
from unweave.core.noise import Noise
from unweave.data import from_array
from unweave.evaluation.model import FittedModel
from unweave.latents import distribution_at
from unweave.objectives import Batch, Label, LabelTargets, total, with_labels
from unweave.training import Lanes, train

TREE = uw.Product(
    style=uw.Gaussian(2), what=uw.Product(shape=uw.Categorical(2), big=uw.Bernoulli(1)),
    across=uw.Gaussian(1), down=uw.Uniform(1),
)  # fmt: skip
LABELS = (
    Label("shape", block="what.shape", share=0.5),
    Label("scale", block="what.big", share=0.5),
    Label("x", block="across", share=0.3),
    Label("y", block="down", share=0.3, weight=2.0),
)


def test_the_terms_are_the_log_masses_and_densities_of_what_is_known():
    run = small_run(latent=TREE, labels=LABELS)
    nets, _ = nets_and_batch(run)
    dataset = SMALL.load(CPU)
    index = torch.arange(40)
    targets = LabelTargets(LABELS, TREE, dataset).targets(index)
    batch = Batch(dataset.images(index).double(), dataset.size, targets)
    turn = with_labels(run.objective.updates[0], LABELS, run.weights)
    terms, _ = turn.loss(nets, batch, Noise(0), {})
    plain, _ = run.objective.updates[0].loss(nets, batch, Noise(0), {})
    names = {"label_shape_what_shape", "label_scale_what_big", "label_x_across", "label_y_down"}
    assert terms.keys() - plain.keys() == names
    raw, factors = nets.model.raw(batch.x), dataset.factors(index)
    names = dataset.factor_names
    shape = factors[:, names.index("shape")]
    known = targets["known0"]
    expected = F.cross_entropy(raw[:, 4:6], shape, reduction="none") * known / 0.5
    torch.testing.assert_close(terms["label_shape_what_shape"].value, expected)
    bit = F.binary_cross_entropy_with_logits(
        raw[:, 6], factors[:, names.index("scale")].double(), reduction="none"
    )
    torch.testing.assert_close(terms["label_scale_what_big"].value, bit * targets["known1"] / 0.5)
    x = factors[:, names.index("x")].double()
    standard = (x - 3.5) / torch.arange(8.0).std(correction=0)
    q = distribution_at(nets.model.encode(batch.x), "across")
    nats = -torch.distributions.Normal(q.mean[:, 0], q.stddev[:, 0]).log_prob(standard)
    torch.testing.assert_close(
        terms["label_x_across"].value, nats * targets["known2"] / 0.3, rtol=1e-5, atol=1e-5
    )
    assert terms["label_y_down"].weight == 2.0


def test_the_share_of_known_labels_is_as_requested_and_the_same_for_every_run():
    dataset = SMALL.load(CPU)
    one, two = (LabelTargets((Label("x", share=0.3),), uw.Gaussian(1), dataset) for _ in range(2))
    assert torch.equal(one.known[0], two.known[0])
    assert one.known[0].float().mean().item() == pytest.approx(0.3, abs=0.06)


@pytest.mark.parametrize("objective", [*OBJECTIVES, *ADVERSARIAL], ids=lambda o: o.kind)
def test_labels_join_every_objective_in_lanes(objective):
    """With weights that differ between the lanes, one of them a schedule."""
    latent = uw.Product(style=uw.Gaussian(2), across=uw.Gaussian(1))
    network = uw.MLP((16,)) if objective.autoencodes else None
    dataset = SMALL.load(CPU)
    runs = [
        small_run(
            objective=objective, latent=latent, network=network, seed=seed,
            labels=(Label("x", block="across", share=0.5, weight=weight),),
        ).resolve(dataset)
        for seed, weight in ((0, 1.0), (1, uw.Linear(0.0, 20.0, steps=4)))
    ]  # fmt: skip
    assert runs[0].lane_key == runs[1].lane_key
    together, alone = Lanes(runs, dataset, CPU), Lanes(runs[1:], dataset, CPU)
    for step in range(3):
        values, weighted = together.advance()
        expected, _ = alone.advance()
        share = weighted["label_x_across"] / values["label_x_across"]
        torch.testing.assert_close(share, torch.tensor([1.0, 5.0 * step]), rtol=1e-5, atol=1e-6)
    for name, value in expected.items():
        torch.testing.assert_close(values[name][1], value[0], rtol=1e-3, atol=1e-3)


def test_labels_teach_a_block_its_meaning():
    """With half of the labels, the category predicts the scale on the other half too."""
    latent = uw.Product(style=uw.Gaussian(3), size=uw.Categorical(2))
    labels = (Label("scale", block="size", share=0.5, weight=50.0),)
    dataset = SMALL.load(CPU)
    run = small_run(
        latent=latent, labels=labels, steps=300, batch_size=64, network=uw.MLP((64,)),
        optimiser=uw.Adam(lr=5e-3),
    )  # fmt: skip
    model = FittedModel(train([run.resolve(dataset)], dataset)[0], dataset)
    unlabelled = torch.arange(dataset.size)[~LabelTargets(labels, latent, dataset).known[0]]
    classes = latent.codes(model.posteriors(unlabelled))[:, -1]
    right = classes == dataset.factors(unlabelled)[:, dataset.factor_names.index("scale")]
    assert right.float().mean() > 0.9


def test_the_batch_is_encoded_once():
    """Labels reuse the encoding, so that batch normalisation sees the batch once."""
    latent = uw.Product(style=uw.Gaussian(2), across=uw.Gaussian(1))
    dataset = SMALL.load(CPU)
    plain = small_run(latent=latent, network=uw.DCGAN(base=4)).resolve(dataset)
    told = dataclasses.replace(plain, labels=(Label("x", block="across", weight=0.0),))
    one, two = Lanes([plain], dataset, CPU), Lanes([told], dataset, CPU)
    one.advance()
    two.advance()
    assert one.state.buffers
    assert all(
        torch.equal(value, two.state.buffers[name]) for name, value in one.state.buffers.items()
    )


def test_two_labels_of_one_name_are_refused():
    with pytest.raises(ValueError, match="one label for a factor and block"):
        small_run(latent=TREE, labels=(LABELS[2], LABELS[2])).resolve(SMALL.load(CPU))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (Label("shpe"), "did you mean 'shape'"),
        (Label("shape", block="what.shap"), "did you mean 'what.shape'"),
        (Label("x", block="what.shape"), "categorical of that size"),
        (Label("x", block="what.big"), "2 classes"),
        (Label("x", block="style"), "a block of one variable"),
        (Label("orientation", block="across"), "at least two classes"),
    ],
)
def test_labels_that_do_not_fit_are_refused_with_advice(label, message):
    with pytest.raises(ValueError, match=message) as caught:
        small_run(latent=TREE, labels=(label,)).resolve(SMALL.load(CPU))
    assert "\n" not in str(caught.value)


def test_labels_survive_the_command_line():
    from unweave.core.assignments import override

    text = 'labels=[{"factor": "shape", "block": "what.shape", "share": 0.2}]'
    expected = Label("shape", block="what.shape", share=0.2)
    assert override(uw.Run, [text]).labels == (expected,)
    fields = ["labels.0.factor=shape", "labels.0.block=what.shape", "labels.0.share=0.2"]
    assert override(uw.Run, fields).labels == (expected,)
    more = ["labels.1.factor=x", "labels.1.weight=linear", "labels.1.weight.stop=5"]
    second = override(uw.Run, [*fields, *more]).labels[1]
    assert second == Label("x", weight=uw.Linear(stop=5.0))
    for wrong in ("labels.factor=shape", "labels.1.factor=shape", "labels.0=shape"):
        with pytest.raises(ValueError, match=r"labels is a list: .* labels\.0\.factor=VALUE"):
            override(uw.Run, [wrong])
    with pytest.raises(ValueError, match="labels: expected a list"):
        override(uw.Run, ["labels=shape"])


def test_a_label_needs_factors():
    spec, dataset = from_array(np.zeros((20, 4), np.float32))
    with pytest.raises(ValueError, match="needs data with factors"):
        small_run(data=spec, latent=uw.Gaussian(1), labels=(Label("x"),)).resolve(dataset)


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
@pytest.mark.usefixtures("quick_scores")
def test_a_labelled_run_has_a_report(tmp_path):
    latent = uw.Product(style=uw.Gaussian(2), shape=uw.Categorical(2))
    labels = (Label("shape", block="shape", weight=uw.Linear(0.0, 5.0, steps=10)),)
    model = uw.fit(
        SMALL, latent=latent, labels=labels, network=uw.MLP((16,)), steps=5, batch_size=16,
        progress=False,
    )  # fmt: skip
    uw.write_report(model, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "factor shape block shape" in page
    assert "labels=" in page


def test_unknown_labels_do_not_change_the_loss():
    run = small_run(latent=TREE, labels=LABELS)
    nets, batch = nets_and_batch(run)
    targets = LabelTargets(LABELS, TREE, SMALL.load(CPU)).targets(torch.arange(len(batch.x)))
    nothing = {k: v & False if k.startswith("known") else v for k, v in targets.items()}
    turn = with_labels(run.objective.updates[0], LABELS, run.weights)
    with_none, _ = turn.loss(nets, batch._replace(targets=nothing), Noise(0), {})
    without, _ = run.objective.updates[0].loss(nets, batch, Noise(0), {})
    torch.testing.assert_close(total(with_none), total(without))
