"""The study of [Esmaeili2019] figures 5 to 7, 9 and 11: MNIST and Fashion-MNIST.

The thickness of strokes and the width of digits are measured in images; the digit that an image
shows is that of its nearest neighbours in the dataset.
"""

from collections.abc import Sequence
from typing import NamedTuple, NotRequired

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from typing_extensions import TypedDict

from unweave.core.noise import Noise
from unweave.data import Dataset, FashionMNIST
from unweave.data.published.strokes import STROKES, in_fifths, strokes
from unweave.data.selected import SelectedDataset
from unweave.evaluation.model import Array, FittedModel
from unweave.evaluation.monitor import Measure
from unweave.papers.esmaeili2019.table2 import category_counts, category_information
from unweave.presets import preset
from unweave.presets.esmaeili2019 import UNSEEN
from unweave.studies.forms import Picture, Traversals, Word
from unweave.studies.images import encode_png
from unweave.studies.study import PICTURES, Network, Results, Study, best_of_settings
from unweave.studies.workspace import Numbers
from unweave.training.records import Matrix, Number
from unweave.training.run import Run

_PRESETS = {
    "HFVAE": "mnist-hfvae",
    "β-VAE": "mnist-beta-vae",
    "β-SVAE": "mnist-beta-svae",
    "zero-shot": "mnist-zero-shot",
    "Fashion-MNIST": "fashion-mnist-hfvae",
}
SETTINGS: dict[str, list[Run]] = {
    name: preset(f"esmaeili2019/{each}").runs() for name, each in _PRESETS.items()
}
VALUES = np.linspace(-3, 3, 7, dtype=np.float32)  # of a traversal: the paper goes from -3 to 3
SAMPLES = (3, 5, 8)  # classes whose first images traversals start from
DIMENSIONS = 4  # of pictures by class
SHOWN = 8  # columns of the picture of held-out digits
EDGES = np.linspace(-5, 5, 41)  # of histograms
INFORMATION = "metrics/information/"
HELD_OUT = ("thick sevens", "narrow zeros")
_ROWS, _PER_DIGIT, _PER_CLASS, _UNSEEN = 10_000, 20, 50, 400
_NEIGHBOURS = 5
_UNUSED = 0.1  # nats of KL below which a latent counts as unused
_STEPS = SETTINGS["HFVAE"][0].steps


class _Latent(TypedDict):
    variable: int
    correlation: Number


class _Unseen(TypedDict):
    bound: Number
    original: Number
    reconstructed: Number
    beyond: Number
    recognised: Number
    distortion: Number
    distortion_of_others: Number
    ordered: Number
    histograms: dict[Word, list[Number]]


class _Pictures(Traversals):
    classes: NotRequired[Picture]
    thickness: NotRequired[Picture]
    samples: NotRequired[Picture]
    unseen: NotRequired[Picture]


class _Facts(TypedDict):
    """The form of the facts of a network; which ones it has depends on its data and latents."""

    kl: list[Number]
    order: list[int]
    pictures: NotRequired[_Pictures]
    category: NotRequired[Matrix]
    follows: NotRequired[dict[Word, _Latent]]
    recognised: NotRequired[Number]
    kept: NotRequired[list[Number]]
    thickened: NotRequired[list[Number]]
    prior: NotRequired[Matrix]
    unseen: NotRequired[dict[Word, _Unseen]]


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    table, digits = model.table(_ROWS), digits_of(model.dataset)
    assert table.kl is not None
    discrete = np.array(model.run.latent.discrete)
    order = [v for v in np.argsort(-table.kl).tolist() if not discrete[v]]
    pictures = {"traversals": _traversals(model, digits, order)}
    facts: Numbers = {"kl": table.kl.tolist(), "order": order, PICTURES: pictures}
    if discrete.any():
        facts["category"] = category_counts(model, "class")
        pictures["classes"] = _by_class(model, order[:DIMENSIONS])
    if isinstance(model.run.data, FashionMNIST):
        return facts
    labels = table.factors[:, table.factor_names.index("class")].astype(np.int64)
    facts["follows"] = best_latents(
        # Unused latents correlate with features a little too, without an effect on images.
        np.where(discrete | (table.kl < _UNUSED), 0.0, table.codes),
        strokes(model.observations(model.rows(_ROWS))[:, 0]),
        labels,
    )
    thickness = facts["follows"]["thickness"]
    facts |= _identity(model, digits, thickness)
    ones = model.encode(digits.images[digits.first(1)])
    pictures["thickness"] = encode_png(list(np.stack(_traverse(model, ones, thickness), 1)))
    if discrete.any():
        facts["prior"], pictures["samples"] = _prior_samples(model, digits)
    if model.run.objective.kind == "hfvae":
        facts["unseen"], pictures["unseen"] = _held_out(model, digits, facts["follows"])
    return facts


class Digits(NamedTuple):
    """All images of a dataset, including held-out ones, and their labels."""

    images: NDArray[np.float32]  # (N, 1, H, W)
    labels: NDArray[np.int64]
    device: torch.device

    def first(self, count: int) -> NDArray[np.int64]:
        """Return the first observations of each label, label by label."""
        each = [np.flatnonzero(self.labels == label)[:count] for label in np.unique(self.labels)]
        return np.concatenate(each)

    def classify(self, images: ArrayLike) -> NDArray[np.int64]:
        """Return the digit of most of the nearest neighbours of each image (n, 1, H, W)."""
        known = torch.from_numpy(self.images).flatten(1).to(self.device)
        queries = torch.as_tensor(np.asarray(images, np.float32)).flatten(1).to(self.device)
        labels = torch.from_numpy(self.labels).to(self.device)
        squares = known.square().sum(1)  # |a - b|^2 less |a|^2, which is the same for all b
        nearest = [
            (squares - 2 * part @ known.T).topk(_NEIGHBOURS, largest=False).indices
            for part in queries.split(512)
        ]
        return labels[torch.cat(nearest)].mode(1).values.cpu().numpy()


def digits_of(dataset: Dataset) -> Digits:
    """Return the images of a dataset, including held-out combinations."""
    whole = dataset.source if isinstance(dataset, SelectedDataset) else dataset
    index = torch.arange(whole.size, device=whole.device)
    labels = whole.factors(index)[:, whole.factor_names.index("class")].cpu().numpy()
    return Digits(whole.images(index).cpu().numpy(), labels, whole.device)


def best_latents(
    codes: ArrayLike, measured: ArrayLike, labels: NDArray[np.int64]
) -> dict[str, dict[str, float]]:
    """Return the latent variable that correlates most with each measured feature.

    The correlation is that of codes (N, V) and features (N, 2), less their means by label.
    """
    centred = [_within(np.asarray(each, np.float64), labels) for each in (codes, measured)]
    lengths = [np.sqrt((each**2).sum(0)) for each in centred]
    with np.errstate(invalid="ignore"):
        correlations = np.nan_to_num(centred[0].T @ centred[1] / np.outer(*lengths))  # (V, 2)
    best = np.abs(correlations).argmax(0)
    return {
        name: {"variable": int(v), "correlation": float(correlations[v, k])}
        for k, (name, v) in enumerate(zip(STROKES, best, strict=True))
    }


def _within(values: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return values (N, K) less their means over rows of the same label."""
    sums = np.zeros((int(labels.max()) + 1, values.shape[1]))
    np.add.at(sums, labels, values)
    counts = np.maximum(np.bincount(labels), 1)[:, None]
    return values - (sums / counts)[labels]


def _traversals(model: FittedModel, digits: Digits, order: Sequence[int]) -> str:
    """Encode traversals of every continuous latent from three observations side by side."""
    first = digits.first(1)
    starts = model.encode(digits.images[[first[label % len(first)] for label in SAMPLES]])
    values = VALUES[:, None]
    rows = [
        [model.traverse_variable(start, variable, values) for start in starts] for variable in order
    ]
    return encode_png([np.concatenate(row) for row in rows])


def _by_class(model: FittedModel, variables: Sequence[int]) -> str:
    """Encode traversals with the other latents at 0, a row per class.  [Esmaeili2019] fig. 11."""
    starts, values = _one_hot(model), VALUES[:, None]
    rows = [
        [model.traverse_variable(start, variable, values) for variable in variables]
        for start in starts
    ]
    return encode_png([np.concatenate(row) for row in rows])


def _one_hot(model: FittedModel) -> Array:
    """Return a code for each class of the discrete variable (C, D), with other latents at 0."""
    latent = model.run.latent
    columns = np.arange(latent.size)[latent.columns[latent.discrete.index(True)]]
    codes = np.zeros((len(columns), latent.size), np.float32)
    codes[np.arange(len(columns)), columns] = 1.0
    return codes


def _traverse(model: FittedModel, codes: Array, follows: Numbers) -> list[Array]:
    """Return images (n, 1, H, W) of codes (n, D) at each value of a traversal of one latent.

    The direction is such that the correlated feature grows along the traversal.
    """
    column = model.run.latent.columns[follows["variable"]]
    values = VALUES if follows["correlation"] >= 0 else VALUES[::-1]
    images = []
    for value in values:
        moved = codes.copy()
        moved[:, column] = value
        images.append(model.decode(moved))
    return images


def _identity(model: FittedModel, digits: Digits, thickness: Numbers) -> Numbers:
    """Return the share of digits that keep their identity as thickness varies.

    [Esmaeili2019] fig. 7. Only images whose reconstruction shows the right digit count.
    """
    chosen = digits.first(_PER_DIGIT)
    codes, labels = model.encode(digits.images[chosen]), digits.labels[chosen]
    right = digits.classify(model.decode(codes)) == labels
    if not right.any():
        return {"recognised": 0.0, "kept": [0.0] * len(VALUES), "thickened": [0.0] * len(VALUES)}
    images_by_value = _traverse(model, codes[right], thickness)
    return {
        "recognised": float(right.mean()),
        "kept": [
            float((digits.classify(images) == labels[right]).mean()) for images in images_by_value
        ],
        "thickened": [float(strokes(images[:, 0])[:, 0].mean()) for images in images_by_value],
    }


def _prior_samples(model: FittedModel, digits: Digits) -> tuple[list[list[int]], str]:
    """Count the digits (Y) that samples of the prior with each class (C) show; encode some."""
    starts = _one_hot(model)
    style = Noise(0, 0, "prior").normal((_PER_CLASS, starts.shape[1]), "style").numpy()
    style[:, starts.any(0)] = 0.0
    counts, rows = [], []
    for start in starts:
        images = model.decode(start + style)
        counts.append(np.bincount(digits.classify(images), minlength=10).tolist())
        rows.append(images[:10])
    return counts, encode_png(rows)


def _held_out(model: FittedModel, digits: Digits, follows: Numbers) -> tuple[Numbers, str]:
    """Measure reconstructions and codes of held-out combinations.  [Esmaeili2019] fig. 9."""
    facts, rows = {}, []
    for name, combination in zip(HELD_OUT, UNSEEN, strict=True):
        (feature,) = {*combination} & {*STROKES}
        label, fifth = int(combination["class"][0]), int(combination[feature][0])
        own, column = digits.images[digits.labels == label], STROKES.index(feature)
        unseen = in_fifths(own[:, 0], np.full(len(own), label))[:, column] == fifth
        side = 1 if fifth else -1  # whether held-out digits have more or less of the feature
        measured, latent = strokes(own[:, 0])[:, column], follows[feature]
        codes = model.encode(own)[:, model.run.latent.columns[latent["variable"]]].reshape(-1)
        codes = codes if latent["correlation"] >= 0 else -codes
        images, others = own[unseen][:_UNSEEN], own[~unseen][:_UNSEEN]
        made, made_others = model.reconstruct(images), model.reconstruct(others)
        features, usual = (strokes(each[:, 0])[:, column] for each in (made, made_others))
        facts[name] = {
            "bound": float(measured[unseen].min() if side > 0 else measured[unseen].max()),
            "original": float(measured[unseen][:_UNSEEN].mean()),
            "reconstructed": float(features.mean()),
            # Among reconstructions, since blur makes strokes thicker.
            "beyond": probability_above(side * features, side * usual),
            "recognised": float((digits.classify(made) == label).mean()),
            "distortion": _cross_entropy(images, made),
            "distortion_of_others": _cross_entropy(others, made_others),
            "ordered": probability_above(side * codes[unseen], side * codes[~unseen]),
            "histograms": {
                "held out": np.histogram(codes[unseen], EDGES)[0].tolist(),
                "others": np.histogram(codes[~unseen], EDGES)[0].tolist(),
            },
        }
        shown = np.linspace(0, len(images) - 1, SHOWN).round().astype(int)
        rows += [images[shown], made[shown]]
    return facts, encode_png(rows)


def probability_above(higher: ArrayLike, lower: ArrayLike) -> float:
    """Return P(a > b) + P(a = b) / 2 for a random value a of the first and b of the second.

    >>> probability_above([2.0, 3.0], [1.0, 2.0])
    0.875
    """
    a, b = np.asarray(higher), np.sort(np.asarray(lower))
    below, upto = (np.searchsorted(b, a, side) for side in ("left", "right"))
    return float((below + upto).mean() / (2 * len(b)))


def _cross_entropy(images: Array, made: Array) -> float:
    """Return the mean of -log p(x|z) of images at the means of their codes, in nats."""
    made = made.clip(1e-6, 1 - 1e-6)
    each = images * np.log(made) + (1 - images) * np.log(1 - made)
    return float(-each.sum((1, 2, 3)).mean())


def rank(network: Network) -> float:
    """Rank a network: by how much the category explains the label, or by the digits kept."""
    return category_information(network) if "category" in network.facts else identity_rank(network)


def identity_rank(network: Network) -> float:
    """Rank a network by the digits that keep their identity as thickness varies."""
    return float(np.mean(network.facts.get("kept", 0.0)))


def _pictured(results: Results) -> list[Network]:
    """Return the best and the median network of each setting, by both ranks."""
    by_rank = [best_of_settings(setting_of, each)(results) for each in (rank, identity_rank)]
    return list({network.key: network for each in by_rank for network in each}.values())


def setting_of(run: Run) -> str:
    """Return the name of a run's setting."""
    return next(name for name, runs in SETTINGS.items() if run in runs)


STUDY = Study(
    "esmaeili2019",
    "digits",
    # All settings with few seeds before any with many.
    [run for same_seed in zip(*SETTINGS.values(), strict=True) for run in same_seed],
    measures=(
        Measure(every=500, rows=2_048),
        Measure(every=500, metrics=("information",)),
        Measure(every=_STEPS, metrics=("mutual_information", "total_correlation", "correlations")),
    ),
    describe=describe,
    pictured=_pictured,
    precision="fp32",  # in bfloat16 some HFVAEs of table 2 diverge
    form=_Facts,
)
