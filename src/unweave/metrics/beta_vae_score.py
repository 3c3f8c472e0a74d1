"""The beta-VAE score: a linear classifier of the factor that pairs of rows share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from unweave.metrics.arrays import Floats, Ints
from unweave.metrics.fixed_factors import Groups, group_by_factor, group_details, random_below
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.predictors import logistic, with_ones
from unweave.metrics.score import Score


@dataclass(frozen=True)
class _PairRules:
    """The numbers of a protocol."""

    pairs: int  # L, per example
    train: int  # examples that the classifier is fitted to
    test: int
    steps: int  # of Adagrad, each on 10 new examples; 0 for a penalised fit to all of them


_PROTOCOLS: Mapping[str, _PairRules] = {
    "higgins2017": _PairRules(pairs=200, train=100_000, test=800, steps=10_000),
    "kim2018": _PairRules(pairs=200, train=100_000, test=800, steps=10_000),  # [Kim2018] app. B
    "locatello2019": _PairRules(pairs=64, train=10_000, test=5_000, steps=0),
}
_RATE, _BATCH = 0.01, 10  # of Adagrad  [Kim2018] app. B
_CHUNK = 2**13  # pairs at once: their codes fit into the cache


@metric
def beta_vae_score(
    inputs: Inputs,
    *,
    protocol: Literal["higgins2017", "kim2018", "locatello2019"] = "kim2018",
    pairs: int | None = None,
    steps: int | None = None,
) -> Score:
    """Compute how well a linear classifier identifies the factor that pairs of rows share.

    An example fixes a factor k and draws L pairs of rows that agree in it; its features are the
    means (1/L) sum_l |z_j(1,l) - z_j(2,l)| over the pairs, one for each code. The score is the
    accuracy with which a linear classifier predicts k from them on new examples.  [Higgins2017]
    Codes that hold K - 1 of K factors can score 1: if all codes vary, the fixed factor must be the
    remaining one ([Kim2018] fig. 3). `factor_vae_score` has no such failure.

    Protocols: `kim2018` has L = 200 and trains softmax regression by 10,000 steps of Adagrad at a
    learning rate of 0.01, each on a new batch of 10 examples; 800 further examples give the score.
    [Kim2018] app. B `higgins2017` is the same: that paper defines the score without these numbers,
    with which [Kim2018] first compared it.  [Higgins2017] `locatello2019` has L = 64 and logistic
    regression at C = 1 on 10,000 examples, and scores it on 5,000.  [Locatello2019]

    The two rows of a pair are drawn among those that share the value of a random row; on a full
    lattice this is the original definition. Values that occur once are not drawn. For a categorical
    code, |z(1) - z(2)| is 1 if the categories differ. Constant codes are left out; if all are, the
    score is 0 by definition. Other libraries rescale the score so that chance, 1/K, becomes 0. The
    score depends on the scale of the codes, because the fit does.

    The fit of `kim2018` does not run to convergence, so its score is random even for given pairs:
    on half entangled codes, seeds differ by 0.2, while those of `locatello2019` differ by 0.01. Use
    `reseeds=10` to see this, and average over seeds.

    Args:
        inputs: posterior means (N, D) and integer factors (N, K).
        protocol: whose numbers.
        pairs: L; default: that of the protocol.
        steps: of Adagrad; default: those of the protocol. `locatello2019` has none.

    Returns:
        Parts: accuracy on the examples of each factor. Matrix: mean features (D, K) of the test
        examples of each factor.

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> beta_vae_score(factors @ [[1, 0], [0, 2]], factors, protocol="locatello2019")
    Score(beta_vae_score/locatello2019 = 1.0000; factor 0 1.000, factor 1 1.000)
    """
    inputs.require_classes()
    rules = _rules(_PROTOCOLS[protocol], pairs, steps)
    groups = group_by_factor(inputs)
    active = np.flatnonzero((inputs.codes != inputs.codes[0]).any(0))
    details = group_details(inputs, groups) | {"active": len(active)}
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    if not len(active):
        details["note"] = "every code is constant, so the score is 0 by definition"
        parts = {inputs.names[k]: 0.0 for k in groups}
        return inputs.score(0.0, parts=parts, matrix=matrix, details=details)
    train, answers = _examples(inputs, active, groups, rules.train, rules.pairs)
    test, truth = _examples(inputs, active, groups, rules.test, rules.pairs)
    predicted = _classify(train, answers, test, rules.steps)
    for k in groups:
        if (truth == k).any():
            matrix[active, k] = test[truth == k].mean(0)
    return inputs.score(
        float((predicted == truth).mean()),
        parts={inputs.names[k]: _accuracy(predicted, truth, k) for k in groups},
        matrix=matrix,
        details=details,
    )


def _rules(rules: _PairRules, pairs: int | None, steps: int | None) -> _PairRules:
    pairs = rules.pairs if pairs is None else pairs
    if pairs < 1:
        raise ValueError(f"expected at least 1 pair to an example, got {pairs}")
    if steps is not None and (steps < 1 or not rules.steps):
        raise ValueError(
            f"expected at least 1 step, and a protocol that trains with Adagrad, got {steps}: "
            "leave it out, or use the protocol kim2018"
        )
    train = rules.train if steps is None else steps * _BATCH
    return replace(rules, pairs=pairs, train=train, steps=steps or rules.steps)


def draw_pairs(
    group: Groups, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw pairs of rows that share the value of a factor: the indices of both, of this shape.

    The first row of a pair is any whose value occurs again, the second any with the same value.
    """
    first = group.repeated.take(random_below(len(group.repeated), shape, rng))
    place = random_below(group.size.take(first), shape, rng)
    place += group.start.take(first)
    return first, group.order.take(place)


def _examples(
    inputs: Inputs, active: Ints, groups: Mapping[int, Groups], examples: int, pairs: int
) -> tuple[Floats, Ints]:
    """Draw examples: features (E, A), and the factor (E,) that each fixes, drawn uniformly."""
    features = np.empty((examples, len(active)))
    fixed = inputs.rng.choice(np.array(list(groups)), examples)
    codes, discrete = np.ascontiguousarray(inputs.codes[:, active]), inputs.discrete[active]
    step = max(1, _CHUNK // pairs)  # independent of D: more codes must not change the rows drawn
    one, two = np.empty((2, step, pairs, len(active)))
    for k, group in groups.items():
        members = np.flatnonzero(fixed == k)
        for at in range(0, len(members), step):
            chunk = members[at : at + step]
            first, second = draw_pairs(group, (len(chunk), pairs), inputs.rng)
            distance = codes.take(first, 0, out=one[: len(chunk)], mode="clip")
            distance -= codes.take(second, 0, out=two[: len(chunk)], mode="clip")
            np.abs(distance, out=distance)
            if discrete.any():
                distance[..., discrete] = distance[..., discrete] != 0
            features[chunk] = np.einsum("elj->ej", distance) / pairs  # twice as fast as mean
    return features, fixed


def _classify(train: Floats, answers: Ints, test: Floats, steps: int) -> Ints:
    """Predict the factor of each row of `test` by a linear classifier."""
    factors, y = np.unique(answers, return_inverse=True)
    if len(factors) == 1:
        return np.full(len(test), factors[0])
    if not steps:
        w, b = _fit_penalised(train, y, len(factors))
    else:
        w, b = _fit_adagrad(train, np.eye(len(factors))[y], steps)
    predicted: Ints = factors[(test @ w + b).argmax(1)]
    return predicted


def _fit_penalised(x: Floats, labels: Ints, classes: int) -> tuple[Floats, Floats]:
    """Fit the weights (A, K) and offsets (K,) of softmax regression at C = 1.

    So that the fit converges at any scale, features are centred, which the offsets absorb, and wide
    ones divided by their standard deviation, which their penalty compensates.
    """
    mean, scale = x.mean(0), np.maximum(x.std(0), 1.0)
    wide = np.ascontiguousarray(with_ones((x - mean) / scale).T)
    penalty = np.append(scale**-2, 0.0) / len(x)
    fitted = logistic(wide, labels, classes, penalty=penalty, steps=1000)
    w = (fitted[:, :-1] / scale).T
    return w, fitted[:, -1] - mean @ w


def _fit_adagrad(x: Floats, y: Floats, steps: int) -> tuple[Floats, Floats]:
    """Fit the weights (A, K) and offsets (K,) of softmax regression from 0 by Adagrad.

    h <- h + g^2, then w <- w - rate g / sqrt(h), from h = 0.1, the default of TensorFlow. Each step
    takes the next batch of the examples x (10 steps, A) and classes y (10 steps, K). Here g is the
    sum over a batch instead of its mean, and h is larger by the square: the ratio is the same.
    """
    x = with_ones(x)
    w = np.zeros((x.shape[1], y.shape[1]))
    h = np.full(w.shape, 0.1 * _BATCH**2)
    batches = (rows.reshape(steps, _BATCH, -1) for rows in (x, y))
    for z, target in zip(*batches, strict=True):
        logits = z @ w
        logits -= np.maximum.reduce(logits, 1, keepdims=True)
        p = np.exp(logits, out=logits)
        p /= np.add.reduce(p, 1, keepdims=True)
        p -= target
        g = z.T @ p
        h += g * g
        g /= np.sqrt(h)
        g *= _RATE
        w -= g
    return w[:-1], w[-1]


def _accuracy(predicted: Ints, truth: Ints, k: int) -> float:
    """Compute the accuracy on the examples of factor k; 0 if there are none."""
    inside = truth == k
    return float((predicted[inside] == k).mean()) if inside.any() else 0.0
