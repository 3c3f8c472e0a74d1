"""What all checks share: one law broken, one AssertionError; specs, means and training."""

import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import digest, from_json, to_json
from unweave.data import Blobs, Data
from unweave.data.dataset import Dataset
from unweave.training import Outcome, Row, Silent, train
from unweave.training.run import Run
from unweave.training.store import Store

CPU = torch.device("cpu")
DRAWS = 20_000
STEPS = (1e-7, 1e-8)  # of finite differences; a large one may cross kinks

_STEPS = 12


def require(holds: object, message: str) -> None:
    """Raise an AssertionError, whichever way Python was started."""
    if not holds:
        raise AssertionError(message)


def check_spec(part: Any, run: Run) -> None:
    """A spec is immutable, survives JSON, and names its run."""
    again = from_json(Run, to_json(run))
    require(again == run, f"expected the same part after JSON, got {again} for {run}")
    require(digest(again) == digest(run), "the digest must survive JSON")
    name = (
        next((f.name for f in dataclasses.fields(part)), None)
        if dataclasses.is_dataclass(part)
        else None
    )
    if name is None:
        return
    try:
        setattr(part, name, None)
    except (AttributeError, TypeError, ValueError):
        return
    raise AssertionError(f"{type(part).__name__} can be changed: decorate it with @unweave.spec")


def small_data() -> Data:
    """Return the dataset that parts are tried on."""
    return Blobs()


def check_mean(name: str, samples: Tensor, expected: Tensor) -> None:
    """A mean over samples agrees with what it should be, within six standard errors."""
    samples, expected = samples.detach(), expected.detach()
    error = 6 * samples.std(0) / math.sqrt(len(samples)) + 1e-6
    away = (samples.mean(0) - expected).abs()
    require(
        (away < error).all(),
        f"{name}: differs from the mean of {len(samples):,} samples by {float(away.max()):.4g}, "
        f"more than six standard errors ({float(error.max()):.4g})",
    )


def check_noise(what: str, draw: Callable[[Noise], Tensor], varies: bool = True) -> None:
    """Draws are functions of the noise: a run could not be resumed or trained in lanes otherwise.

    Args:
        what: the distribution that is drawn from.
        draw: a function of the noise.
        varies: whether other noise must give other values.
    """
    one, again, other = (draw(Noise(seed)).detach() for seed in (1, 1, 2))
    advice = "draw with noise.normal and noise.uniform, not with torch's or NumPy's own numbers"
    require(
        torch.equal(one, again),
        f"{what}: the same noise gives other values each time, so runs are not reproducible; "
        f"{advice}",
    )
    require(
        not (varies and torch.equal(one, other)),
        f"{what}: other noise gives the same values, as every step and seed would have; {advice}",
    )


def check_gradient(what: str, function: Callable[[Tensor], Tensor], point: Tensor) -> None:
    """The gradient of values agrees with finite differences, along a random direction."""
    point = point.detach().clone().requires_grad_()
    direction = Noise(8).normal(tuple(point.shape), "direction", point.dtype)
    values = function(point)
    weights = Noise(9).normal(tuple(values.shape), "weights", values.dtype)

    @torch.no_grad()
    def weighted(step: float) -> float:
        return float((weights * function(point + step * direction)).sum())

    value = (weights * values).sum()
    expected = [(weighted(step) - weighted(-step)) / (2 * step) for step in STEPS]
    require_slope(what, slope_along(value, [point], [direction]), expected, value)


def slope_along(value: Tensor, parameters: Sequence[Tensor], direction: Sequence[Tensor]) -> float:
    """The derivative of a value along a direction; 0 if it has no gradient."""
    if not value.requires_grad:
        return 0.0
    gradients = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
    pairs = zip(gradients, direction, strict=True)
    return sum((g * along).sum().item() for g, along in pairs if g is not None)


def require_slope(what: str, slope: float, expected: Sequence[float], value: Tensor) -> None:
    """A slope by differentiation is about one of those by finite differences."""
    rounding = 1e-6 * (1 + abs(value.item()))
    require(
        any(math.isclose(slope, e, rel_tol=1e-3, abs_tol=rounding) for e in expected),
        f"{what}: its gradient gives the slope {slope:.6g}, finite differences give "
        f"{expected[0]:.6g}: is a part of it detached or rounded?",
    )


class _Interruption(Exception):
    """Raised to stop a run in the middle."""


class _Interrupt(Silent):
    """Stops training at a step."""

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """Raise at half of the steps."""
        if step >= _STEPS // 2:
            raise _Interruption


def check_training(run: Run, dataset: Dataset | None = None) -> None:
    """Lanes equal runs alone, and an interrupted run ends with the same bits."""
    dataset = dataset or run.data.load(CPU)
    size = dataset.size if run.objective.needs_full_batch else min(16, dataset.size)
    runs = [
        dataclasses.replace(run, steps=_STEPS, seed=seed, batch_size=size).resolve(dataset)
        for seed in (0, 1)
    ]
    lanes, (alone,) = train(runs, dataset), train(runs[1:], dataset)
    for outcome in (*lanes, alone):
        require(outcome.failure is None, f"training broke: {outcome.failure}")
    _check_weights("in lanes and alone", lanes[1], alone, tolerance=1e-4)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        with contextlib.suppress(_Interruption):
            train(runs[1:], dataset, store, _Interrupt(), checkpoint_seconds=0.0)
        (resumed,) = train(runs[1:], dataset, store)
        _check_weights("interrupted and resumed, and at once", resumed, alone, tolerance=0.0)
        require(store.folder(runs[1]).read_run() == runs[1], "the stored run must be the same")


def _check_weights(what: str, one: Outcome, other: Outcome, tolerance: float) -> None:
    assert one.weights is not None
    assert other.weights is not None
    for name, value in one.weights.items():
        away = float((value - other.weights[name]).abs().max()) if value.numel() else 0.0
        cause = "; a bias before batch normalisation does, as it has no effect: use bias=False"
        require(
            away <= tolerance,
            f"{name} differs by {away:.3g} between training {what}"
            + (cause if tolerance and name.endswith("bias") else ""),
        )
