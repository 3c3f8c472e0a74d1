"""Theorems of the papers, as functions of a trained model that return both sides.

Each takes a `FittedModel`, or the `VAE` inside one with observations x, and computes in float64. By
default it uses 256 random observations of a `FittedModel`'s data, and q(z) is that of these, so its
terms differ from those of `model.summary()`, whose q(z) is of all the data. The sides are equal up
to rounding for any networks, trained or not; only the propositions of [Sikka2019] are about optima,
and hold for a trained model as far as it has converged. These three are one inequality in three
forms, the optimality of either model for its own weight: together they are one check, not three.

>>> import numpy as np, unweave as uw
>>> from unweave.theory import theorem_1
>>> x = np.random.default_rng(0).normal(size=(100, 5))
>>> model = uw.fit(x, latent=uw.StudentT(2, df=5), network=uw.MLP(), steps=5, progress=False)
>>> theorem_1(model, beta=4.0).gap < 1e-9
True
"""

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unweave.aggregate import Decomposition, decompose_exactly
from unweave.core.noise import Noise
from unweave.core.tensors import Numbers, floating
from unweave.evaluation.model import FittedModel
from unweave.latents import FullGaussian, Gaussian, Latent, PriorDensity
from unweave.latents.block import ClosedFormRateBlock
from unweave.latents.gaussian import as_full
from unweave.models import ForwardPass, VAEModel as VAE
from unweave.theory.linear import Solution

_ROWS = 256  # observations of a fitted model's data
_ROUND = 1e-9  # how far R R^T may be from I for a rotation R
_SINGULAR = 1e-12  # smallest singular value of an invertible matrix, relative to the largest


class Identity(NamedTuple):
    """The two sides of an identity, and the parts whose sum is the right side."""

    left: Tensor
    right: Tensor
    parts: dict[str, Tensor]

    @property
    def gap(self) -> float:
        """The largest difference between the sides."""
        return (self.left - self.right).abs().max().item()

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {_mean(value):.4g}" for name, value in self.parts.items())
        return (
            f"Identity of {len(self.left)} numbers, gap {self.gap:.2g}; means: left "
            f"{_mean(self.left):.4g}, right {_mean(self.right):.4g} of parts {parts}"
        )


class BeforeAfter(NamedTuple):
    """Terms of a model before and after a change of it, means over the observations, in nats."""

    before: dict[str, float]
    after: dict[str, float]

    def moved(self, tolerance: float = 1e-9) -> list[str]:
        """Return the terms that change by more than a relative tolerance."""
        pairs = ((name, value, self.after[name]) for name, value in self.before.items())
        return [name for name, a, b in pairs if not math.isclose(a, b, rel_tol=tolerance,
                abs_tol=tolerance)]  # fmt: skip


class Bounds(NamedTuple):
    """Values that a theorem puts between others, one for each pair of neighbouring weights."""

    low: Tensor
    value: Tensor
    high: Tensor

    @property
    def slack(self) -> float:
        """The smallest distance of a value from its bounds; negative if one is violated."""
        return torch.minimum(self.value - self.low, self.high - self.value).min().item()


class Optimum(NamedTuple):
    """The terms of a beta-VAE with a weight: means over the data, in nats."""

    beta: float
    reconstruction: float  # E[log p(x|z)]
    rate: float  # E[KL(q(z|x) || p(z))], the conditional independence loss

    @property
    def elbo(self) -> float:
        """Reconstruction - rate.  [Sikka2019] eq. 5."""
        return self.reconstruction - self.rate

    @property
    def objective(self) -> float:
        """Reconstruction - beta rate.  [Sikka2019] eq. 6."""
        return self.reconstruction - self.beta * self.rate


Optimal = Optimum | Solution | FittedModel


def theorem_1(
    model: FittedModel | VAE, beta: float, x: Numbers | None = None, noise: Noise | None = None
) -> Identity:
    """L_beta(x) = L(x; pi_beta, q) + (beta - 1) H_q + log F_beta, (B,).  [Mathieu2019] eq. 3.

    L(x; pi_beta, q) is the ELBO under the annealed prior p(z)^beta / F_beta. Rates and entropy are
    computed by formula if the annealed prior has one, and otherwise all on the same sample.

    The sides are computed independently, including log F_beta, if p(z)^beta / F_beta is a prior
    with its own density: Gaussian, Student-t, Laplace, uniform, categorical. For others it is
    defined as p(z)^beta over F_beta (`AnnealedPrior`), so log F_beta cancels: the sides are then
    equal for any log F_beta, and only its integral can verify it.
    """
    passed = _pass(model, x, noise)
    latent = passed.latent
    if not (isinstance(latent, PriorDensity) and latent.fixed_prior):
        raise ValueError(
            f"theorem 1 anneals a prior that is known beforehand, got {latent}; train with a prior "
            "that is not learned"
        )
    annealed = latent.annealed(beta)
    z = passed.hard_samples
    closed = isinstance(latent, ClosedFormRateBlock) and not latent.sampled_rate
    if closed and isinstance(annealed, ClosedFormRateBlock):
        zero = passed.z.new_zeros(latent.size)
        rate, entropy = passed.rate, passed.q.entropy()
        other = annealed.rate(passed.q, annealed.density(zero), z)
    else:
        entropy = -passed.q.log_prob(z)
        rate, other = -entropy - passed.p.log_prob(z), -entropy - annealed.log_prob(z)
    parts = {
        "elbo": -passed.distortion - other,
        "entropy": (beta - 1) * entropy,
        "log_normaliser": torch.full_like(entropy, latent.log_normaliser(beta)),
    }
    return _identity(-passed.distortion - beta * rate, parts)


def corollary_1(
    model: FittedModel | VAE, beta: float, x: Numbers | None = None, noise: Noise | None = None
) -> Identity:
    """L_beta(x; theta, phi) = L(x; theta', phi') + (beta - 1)/2 log|S'(x)| + c, (B,).

    theta', phi' are the networks with codes scaled by sqrt(beta). With D columns and the covariance
    Sigma of p(z): c = D (beta - 1)/2 (1 + log 2 pi / beta) + log F_beta and
    log F_beta = (1 - beta)/2 log|2 pi Sigma| - D/2 log beta.  [Mathieu2019] corollary 1, eq. 4.
    The proof in app. A prints the densities with sqrt(2 pi |S|) for sqrt(|2 pi S|).
    """
    passed, larger = recode(model, _scaling(model, beta), x, noise)
    p, size = as_full(passed.p), passed.z.shape[-1]
    log_det = 2 * p.factor.diagonal().log().sum() + size * math.log(2 * math.pi)
    log_f = 0.5 * (1 - beta) * log_det - 0.5 * size * math.log(beta)
    constant = 0.5 * size * (beta - 1) * (1 + math.log(2 * math.pi / beta)) + log_f
    spread = larger.q.entropy() - 0.5 * size * (1 + math.log(2 * math.pi))  # log|S'| / 2
    parts = {
        "elbo": -larger.distortion - larger.rate,
        "entropy": (beta - 1) * spread,
        "constant": constant.expand(len(spread)),
    }
    return _identity(-passed.distortion - beta * passed.rate, parts)


def corollary_2(
    model: FittedModel | VAE, beta: float, x: Numbers | None = None, noise: Noise | None = None
) -> Identity:
    """Compare the gradients of the mean L_beta and of the mean L_H,beta of the rescaled networks.

    The gradients are with respect to all parameters of encoder and decoder, (parameters,). One is 0
    if the other is, which is [Mathieu2019] corollary 2. `parts` has the right side by parameter.
    """
    subject, x, noise = _subject(model, x, noise)
    sides = corollary_1(subject, beta, x, noise)
    names = [name for name, _ in subject.named_parameters() if not name.startswith("prior.")]
    parameters = [subject.get_parameter(name) for name in names]
    wanted = sides.parts["elbo"] + sides.parts["entropy"]  # L_H,beta, eq. 5
    left, right = (
        [part.flatten() for part in torch.autograd.grad(side.mean(), parameters, retain_graph=True)]
        for side in (sides.left, wanted)
    )
    return Identity(torch.cat(left), torch.cat(right), dict(zip(names, right, strict=True)))


def theorem_2(
    model: FittedModel | VAE,
    beta: float,
    rotation: Numbers | None = None,
    x: Numbers | None = None,
    noise: Noise | None = None,
) -> BeforeAfter:
    """Compare the terms of a model before and after rotating its codes.

    [Mathieu2019] theorem 2, eq. 6. Under an isotropic Gaussian prior the objective, its two terms,
    the entropy, the mutual information and KL(q(z) || p(z)) stay the same; only the split of the
    latter into total correlation and dimension-wise KL changes. The rotated posterior has a full
    covariance: the theorem does not hold for a diagonal family, which a rotation leaves unless the
    posterior is isotropic. The rotation (D, D), which may be a reflection, is random by default.
    """
    noise, size = noise or Noise(0), _real(_latent(model)).size
    if rotation is None:
        rotation = torch.linalg.qr(noise.normal((size, size), "rotation", torch.float64)).Q
    rotation = _square(rotation, size)
    off = (rotation @ rotation.T - torch.eye(size).to(rotation)).abs().max().item()
    if off > _ROUND:
        raise ValueError(
            f"expected a rotation R with R R^T = I in float64, got one that is off by {off:.2g}; "
            "use torch.linalg.qr(matrix).Q, or `recode` for other matrices"
        )
    return BeforeAfter(*(terms(each, beta) for each in recode(model, rotation, x, noise)))


def rescaling(
    model: FittedModel | VAE, beta: float, x: Numbers | None = None, noise: Noise | None = None
) -> BeforeAfter:
    """Compare the terms of a model before and after scaling its codes by sqrt(beta)."""
    both = recode(model, _scaling(model, beta), x, noise)
    return BeforeAfter(*(terms(each, beta) for each in both))


def elbo_parts(
    model: FittedModel | VAE, x: Numbers | None = None, noise: Noise | None = None
) -> Identity:
    """ELBO = log p(x|z) - I(x; z) - [TC beyond the prior's, at every node] - [KL of every leaf].

    At a sample z of each x, (B,), with q(z) exact over the given x: [Esmaeili2019] fig. 2 and 4,
    and [Kim2018] lemma 1, in which the last two sums together are KL(q(z) || p(z)).
    """
    passed = _pass(model, x, noise)
    decomposed = _decomposition(passed)
    z = passed.hard_samples
    parts = {
        "reconstruction": -passed.distortion,
        "mutual_information": -decomposed.mutual_information,
        **{
            f"dependence {node}".strip(): -decomposed.excess(node)
            for node in decomposed.correlations
        },
        **{f"mismatch {leaf}".strip(): -value for leaf, value in decomposed.leaf_kls.items()},
    }
    rate = passed.q.log_prob(z) - passed.p.log_prob(z)
    return _identity(-passed.distortion - rate, parts)


def proposition_1(models: Sequence[Optimal]) -> Bounds:
    """dL*/dbeta = -KL <= 0: the slope of L* between neighbours lies between their rates.

    KL(beta') <= [L*(beta) - L*(beta')] / (beta' - beta) <= KL(beta) for beta < beta', which is
    [Sikka2019] eq. 10 without a derivative. Each bound says that neither model is better than the
    other at the other's weight.
    """
    a, b = _neighbours(models)
    slope = (_all(a, "objective") - _all(b, "objective")) / (_all(b, "beta") - _all(a, "beta"))
    return Bounds(_all(b, "rate"), slope, _all(a, "rate"))


def proposition_2(models: Sequence[Optimal]) -> Bounds:
    """Rate and reconstruction fall with beta; reconstruction falls beta to beta' times as much.

    beta dKL <= dR <= beta' dKL with dKL = KL(beta) - KL(beta') and dR likewise, of the
    reconstruction; hence dKL >= 0 and dR >= 0.  [Sikka2019] eq. 12, 13, from eq. 30. The slack
    is that of proposition 1 times beta' - beta.
    """
    a, b = _neighbours(models)
    fall = _all(a, "rate") - _all(b, "rate")
    value = _all(a, "reconstruction") - _all(b, "reconstruction")
    return Bounds(_all(a, "beta") * fall, value, _all(b, "beta") * fall)


def proposition_3(models: Sequence[Optimal]) -> Bounds:
    """ELBO* rises up to beta = 1 and falls after that.

    (beta - 1) dKL <= ELBO*(beta) - ELBO*(beta') <= (beta' - 1) dKL, [Sikka2019] eq. 15 without a
    derivative, with dKL as in proposition 2. These are its three sides, each less dKL, so the slack
    is the same.
    """
    a, b = _neighbours(models)
    fall = _all(a, "rate") - _all(b, "rate")
    value = _all(a, "elbo") - _all(b, "elbo")
    return Bounds((_all(a, "beta") - 1) * fall, value, (_all(b, "beta") - 1) * fall)


def optimum(model: Optimal, rows: int = 10_000) -> Optimum:
    """Return the terms of a model with its beta, on up to `rows` observations, one sample each."""
    if not isinstance(model, FittedModel):
        return Optimum(model.beta, model.reconstruction, model.rate)
    weights = model.run.weights
    beta = weights.get("beta", 1.0)
    if model.run.objective.kind not in ("vae", "beta-vae") or not isinstance(beta, (int, float)):
        raise ValueError(
            f"the propositions are about a beta-VAE with a fixed beta, got {model.run.objective}"
        )
    index = model.rows(rows)
    with torch.no_grad():
        passed = _pass(model, model.dataset.images(index), None)
        return Optimum(float(beta), -_mean(passed.distortion), _mean(passed.rate))


def recode(
    model: FittedModel | VAE, matrix: Numbers, x: Numbers | None = None, noise: Noise | None = None
) -> tuple[ForwardPass, ForwardPass]:
    """Return a forward pass of a model with Gaussian codes, and the same with codes M z for z.

    q'(z|x) = N(M m, M S M^T), p'(x|z) = p(x|M^-1 z), and the same samples: z' = M z, for any
    invertible M, (D, D).
    """
    subject, x, noise = _subject(model, x, noise)
    matrix = _square(matrix, _real(subject.latent).size)
    singular = torch.linalg.svdvals(matrix)
    if not singular[-1] > _SINGULAR * singular[0]:
        raise ValueError(
            "expected an invertible matrix, got one with singular values from "
            f"{singular[0].item():.3g} to {singular[-1].item():.3g}"
        )
    passed = subject(x, noise)
    matrix = matrix.to(passed.z)
    q = as_full(passed.q)
    factor = matrix @ q.factor
    transformed = FullGaussian(q.loc @ matrix.T, torch.linalg.cholesky(factor @ factor.mT))
    z = passed.z @ matrix.T
    px = subject.decode(torch.linalg.solve(matrix, z.T).T)
    return passed, passed._replace(q=transformed, z=z, px=px)


def terms(passed: ForwardPass, beta: float) -> dict[str, float]:
    """Return the mean terms of a forward pass, with q(z) exact over its observations."""
    with torch.no_grad():
        decomposed = _decomposition(passed)
        rate = passed.rate
        means = {
            "objective": -passed.distortion - beta * rate,
            "reconstruction": -passed.distortion,
            "rate": rate,
            "entropy": passed.q.entropy(),
            "mutual_information": decomposed.mutual_information,
            "kl": decomposed.total_correlation + decomposed.dimension_kl,  # KL(q(z) || p(z))
            "total_correlation": decomposed.total_correlation,
            "dimension_kl": decomposed.dimension_kl,
        }
        return {name: _mean(value) for name, value in means.items()}


def double(model: FittedModel) -> VAE:
    """Return the networks of a fitted model with its weights, in float64."""
    nets = copy.deepcopy(model.trained.nets)
    nets.load_state_dict({name: value[0] for name, value in model.trained.weights.items()})
    autoencoder = nets.double().model
    if not isinstance(autoencoder, VAE):
        raise ValueError(
            f"expected an autoencoder, got a model of objective {model.run.objective.kind}, which "
            "has no ELBO"
        )
    return autoencoder


def _subject(
    model: FittedModel | VAE, x: Numbers | None, noise: Noise | None
) -> tuple[VAE, Tensor, Noise]:
    if isinstance(model, VAE):
        if x is None:
            raise ValueError("expected observations x with a bare VAE, got none; give x")
        return model, floating(x).to(next(model.parameters())), noise or Noise(0)
    subject, shape = double(model), model.dataset.shape
    inputs = model.dataset.images(model.rows(_ROWS)) if x is None else floating(x)
    if tuple(inputs.shape[1:]) != tuple(shape):
        raise ValueError(
            f"expected observations of shape (B, {', '.join(map(str, shape))}), got "
            f"{tuple(inputs.shape)}"
        )
    device = model.trained.device
    return subject, inputs.to(device, torch.float64), (noise or Noise(0))._replace(device=device)


def _square(matrix: Numbers, size: int) -> Tensor:
    """Check a matrix for codes, and convert it to float64."""
    values = floating(matrix).detach().double()
    if values.shape != (size, size) or not values.isfinite().all():
        raise ValueError(
            f"expected a matrix of finite numbers for {size} columns, ({size}, {size}), got shape "
            f"{tuple(values.shape)}"
        )
    return values


def _pass(model: FittedModel | VAE, x: Numbers | None, noise: Noise | None) -> ForwardPass:
    subject, x, noise = _subject(model, x, noise)
    passed: ForwardPass = subject(x, noise)
    return passed


def _latent(model: FittedModel | VAE) -> Latent:
    return model.latent if isinstance(model, VAE) else model.run.latent


def _real(latent: Latent) -> ClosedFormRateBlock:
    if not isinstance(latent, ClosedFormRateBlock):
        raise ValueError(
            f"expected a block of real columns with Gaussian posteriors, got {latent}; take a "
            "model with latent gaussian, student-t, laplace or sparse"
        )
    return latent


def _scaling(model: FittedModel | VAE, beta: float) -> Tensor:
    """Return sqrt(beta) I, for a model with a Gaussian prior."""
    latent = _latent(model)
    if not isinstance(latent, Gaussian):
        raise ValueError(
            f"corollaries 1 and 2 are about a Gaussian prior, got {latent}; use a model with "
            "latent=gaussian"
        )
    if not 0 < beta < math.inf:
        raise ValueError(
            f"expected beta above 0 and finite, got {beta}: codes are scaled by its root"
        )
    return math.sqrt(beta) * torch.eye(latent.size, dtype=torch.float64)


def _decomposition(passed: ForwardPass) -> Decomposition:
    z = passed.hard_samples
    return decompose_exactly(passed.latent, passed.q, passed.p, z, passed.q.log_prob(z))


def _identity(left: Tensor, parts: dict[str, Tensor]) -> Identity:
    return Identity(left, torch.stack(list(parts.values())).sum(0), parts)


def _neighbours(models: Sequence[Optimal]) -> tuple[list[Optimum], list[Optimum]]:
    if len({problem for model in models if (problem := _problem(model))}) > 1:
        raise ValueError(
            "expected optima of one problem for several weights, got models of different data, "
            "networks or noise; take one mixing matrix, or runs that differ only in beta and seed"
        )
    optima = sorted((optimum(model) for model in models), key=lambda each: each.beta)
    if len({each.beta for each in optima}) < max(2, len(optima)):
        raise ValueError(
            f"expected two weights or more, each once, got beta = {[each.beta for each in optima]}"
        )
    return optima[:-1], optima[1:]


def _problem(model: Optimal) -> object:
    """Return what models that differ only in beta have in common; None if it is not known."""
    if isinstance(model, Solution):
        return model.mixing.shape, model.mixing.tobytes(), model.noise
    if isinstance(model, FittedModel):
        run = model.run
        return run.data, run.latent, run.network, run.likelihood
    return None


def _all(optima: Sequence[Optimum], name: str) -> Tensor:
    return torch.tensor([getattr(each, name) for each in optima], dtype=torch.float64)


def _mean(values: Tensor) -> float:
    return values.double().mean().item()
