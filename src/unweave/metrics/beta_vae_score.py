"""The score of the beta-VAE: pairs of rows that share one factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.factor_vae_score import Groups, combinations_missing, fixable, random_below
from unweave.metrics.inputs import Floats, Inputs, Ints, Seed, check_choice, read
from unweave.metrics.options import Frame, framed
from unweave.metrics.predictors import logistic
from unweave.metrics.score import Detail, Score

BetaVAEProtocol = Literal["higgins2017", "kim2018", "locatello2019"]


@dataclass(frozen=True)
class _Numbers:
    """The numbers of a protocol."""

    pairs: int  # L, per example
    train: int  # examples that the classifier is fitted to
    test: int
    steps: int  # of Adagrad, each on 10 new examples; 0: a penalised fit to all of them


_PROTOCOLS: Mapping[str, _Numbers] = {
    "higgins2017": _Numbers(pairs=200, train=100_000, test=800, steps=10_000),
    "kim2018": _Numbers(pairs=200, train=100_000, test=800, steps=10_000),  # [Kim2018] app. B
    "locatello2019": _Numbers(pairs=64, train=10_000, test=5_000, steps=0),
}
_RATE, _BATCH = 0.01, 10  # of Adagrad  [Kim2018] app. B
_CHUNK = 2**13  # pairs at once: their codes fit into the cache


@framed
def beta_vae_score(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: BetaVAEProtocol = "kim2018",
    rng: Seed = 0,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    pairs: int | None = None,
    steps: int | None = None,
    **frame: Unpack[Frame],
) -> Score:
    """How well a linear classifier tells which factor pairs of rows share.

    An example fixes a factor k and takes L pairs of rows that agree in it; its features are the
    means (1/L) sum_l |z_j(1,l) - z_j(2,l)| over the pairs, one for each code. The score is the
    accuracy with which a linear classifier tells k from them on new examples.  [Higgins2017]
    Codes that hold K - 1 of K factors can score 1: where no code is still, it is the last factor
    that is fixed ([Kim2018] fig. 3). `factor_vae_score` has no such failure.

    Protocols: `kim2018` has L = 200 and trains softmax regression by 10,000 steps of Adagrad at a
    learning rate of 0.01, each on a new batch of 10 examples; 800 further examples give the score.
    [Kim2018] app. B `higgins2017` is the same: that paper defines the score but not these numbers,
    by which it was first compared.  [Higgins2017] `locatello2019` has L = 64, logistic regression
    at C = 1 on 10,000 examples, scored on 5,000.  [Locatello2019]

    The two rows of a pair are drawn among those of a table that share the value of a random row: on
    a full lattice that is the original definition. Values that occur once are not drawn. Of a
    categorical code, |z(1) - z(2)| is 1 where the categories differ. Constant codes are left out;
    where all are, the score is 0 by definition. Other libraries rescale the score so that chance,
    1/K, becomes 0. The score depends on the scale of the codes, as the fit does.

    The fit of `kim2018` is not run to its end, so its score is random beyond the choice of pairs:
    on codes that are half entangled seeds differ by 0.2, where those of `locatello2019` differ by
    0.01. Ask for `reseeds=10` to see the spread, and take the mean over seeds.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers.
        protocol: whose numbers.
        rng: seed or generator.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.
        pairs: L, if not that of the protocol.
        steps: of Adagrad, if not those of the protocol; `locatello2019` has none.

    Returns:
        Parts: accuracy on the examples of each factor. Matrix: mean features (D, K) of the examples
        of each factor of the test.

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> beta_vae_score(factors @ [[1, 0], [0, 2]], factors, protocol="locatello2019")
    Score(beta_vae_score/locatello2019 = 1.0000; factor 0 1.000, factor 1 1.000)
    """
    check_choice("protocol", protocol, get_args(BetaVAEProtocol))
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
    )
    numbers = _numbers(_PROTOCOLS[protocol], pairs, steps)
    generator = np.random.default_rng(rng)
    groups = fixable(inputs)
    active = np.flatnonzero((inputs.codes != inputs.codes[0]).any(0))
    details: dict[str, Detail] = {
        "rows": inputs.rows,
        "combinations missing": combinations_missing(inputs, list(groups)),
        "active": len(active),
        "factors left out": [n for k, n in enumerate(inputs.names) if k not in groups],
        "chance": 1 / len(groups),
    }
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    if not len(active):
        details["note"] = "every code is constant, so the score is 0 by definition"
        parts = {inputs.names[k]: 0.0 for k in groups}
        return Score("beta_vae_score", protocol, 0.0, parts, matrix, details)
    train, answers = _examples(inputs, active, groups, numbers.train, numbers.pairs, generator)
    test, truth = _examples(inputs, active, groups, numbers.test, numbers.pairs, generator)
    told = _classified(train, answers, test, numbers.steps)
    for k in groups:
        if (truth == k).any():
            matrix[active, k] = test[truth == k].mean(0)
    return Score(
        name="beta_vae_score",
        protocol=protocol,
        value=float((told == truth).mean()),
        parts={inputs.names[k]: _accuracy(told, truth, k) for k in groups},
        matrix=matrix,
        details=details,
    )


def _numbers(numbers: _Numbers, pairs: int | None, steps: int | None) -> _Numbers:
    pairs = numbers.pairs if pairs is None else pairs
    if pairs < 1:
        raise ValueError(f"expected at least 1 pair to an example, got {pairs}")
    if steps is not None and (steps < 1 or not numbers.steps):
        raise ValueError(
            f"expected at least 1 step, of a protocol that goes by steps of Adagrad, got {steps}: "
            "leave it out, or use the protocol kim2018"
        )
    train = numbers.train if steps is None else steps * _BATCH
    return replace(numbers, pairs=pairs, train=train, steps=steps or numbers.steps)


def pairs_sharing_a_value(
    group: Groups, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw pairs of rows that share the value of a factor: their numbers, of this shape each.

    The first row of a pair is any whose value occurs again, the second any with the same value.
    """
    first = group.repeated.take(random_below(len(group.repeated), shape, rng))
    place = random_below(group.size.take(first), shape, rng)
    place += group.start.take(first)
    return first, group.order.take(place)


def _examples(
    inputs: Inputs,
    active: Ints,
    groups: Mapping[int, Groups],
    examples: int,
    pairs: int,
    rng: np.random.Generator,
) -> tuple[Floats, Ints]:
    """Features (E, A) of examples, and the factor (E,) that each fixes, drawn uniformly."""
    features = np.empty((examples, len(active)))
    chosen = rng.choice(np.array(list(groups)), examples)
    codes, discrete = np.ascontiguousarray(inputs.codes[:, active]), inputs.discrete[active]
    step = max(1, _CHUNK // pairs)  # free of D: more codes must not change the rows drawn
    one, two = np.empty((2, step, pairs, len(active)))
    for k, group in groups.items():
        mine = np.flatnonzero(chosen == k)
        for at in range(0, len(mine), step):
            part = mine[at : at + step]
            first, second = pairs_sharing_a_value(group, (len(part), pairs), rng)
            apart = codes.take(first, 0, out=one[: len(part)], mode="clip")
            apart -= codes.take(second, 0, out=two[: len(part)], mode="clip")
            np.abs(apart, out=apart)
            if discrete.any():
                apart[..., discrete] = apart[..., discrete] != 0
            features[part] = np.einsum("elj->ej", apart) / pairs  # twice as fast as mean
    return features, chosen


def _classified(train: Floats, answers: Ints, test: Floats, steps: int) -> Ints:
    """The factor that a linear classifier tells for each row of `test`."""
    factors, y = np.unique(answers, return_inverse=True)
    if len(factors) == 1:
        return np.full(len(test), factors[0])
    if not steps:
        w, b = _penalised(train, y, len(factors))
    else:
        w, b = _adagrad(train, np.eye(len(factors))[y], steps)
    nearest: Ints = factors[(test @ w + b).argmax(1)]
    return nearest


def _penalised(x: Floats, labels: Ints, classes: int) -> tuple[Floats, Floats]:
    """Weights (A, K) and offsets (K,) of softmax regression at C = 1.

    Features are centred, which the offsets make up for, and those that are wide divided by their
    deviation, which their penalty makes up for: the fit ends whatever the scales are.
    """
    mean, scale = x.mean(0), np.maximum(x.std(0), 1.0)
    wide = np.ascontiguousarray(np.column_stack([(x - mean) / scale, np.ones(len(x))]).T)
    penalty = np.append(scale**-2, 0.0) / len(x)
    fitted = logistic(wide, labels, classes, penalty=penalty, steps=1000)
    w = (fitted[:, :-1] / scale).T
    return w, fitted[:, -1] - mean @ w


def _adagrad(x: Floats, y: Floats, steps: int) -> tuple[Floats, Floats]:
    """Weights (A, K) and offsets (K,) of softmax regression, from 0, by steps of Adagrad.

    h <- h + g^2, then w <- w - rate g / sqrt(h), from h = 0.1, the default of TensorFlow. Each step
    takes the next batch of the examples x (10 steps, A) and classes y (10 steps, K). Here g is the
    sum over a batch and not its mean, and h is larger by the square, so their ratio is the same.
    """
    x = np.column_stack([x, np.ones(len(x))])
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


def _accuracy(told: Ints, truth: Ints, k: int) -> float:
    """Share of the examples of factor k that are told; 0 where there are none."""
    mine = truth == k
    return float((told[mine] == k).mean()) if mine.any() else 0.0
