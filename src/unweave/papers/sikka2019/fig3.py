"""Figure 3: deep beta-VAEs on a moving digit.  [Sikka2019] app. C."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave.data import MovingDigit
from unweave.evaluation.model import FittedModel
from unweave.objectives import Nets
from unweave.papers.sikka2019 import deep
from unweave.papers.sikka2019.deep import SAMPLES
from unweave.papers.sikka2019.orders import falls
from unweave.presets.sikka2019 import MOVING_BETAS, MOVING_DIGIT
from unweave.studies.drawing import BLUE, SKY, Axes, Figure, SubplotSpec, Values
from unweave.studies.images import pack_array, unpack_array
from unweave.studies.intervals import mean_over_networks, range_interval
from unweave.studies.study import PICTURES, Network, Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace
from unweave.training.records import Matrix, Number
from unweave.training.run import Run

SWEEP = deep.Sweep(MOVING_DIGIT, latents=2, betas=MOVING_BETAS, seeds=tuple(range(300)))
SHOWN = (0.1, 2.5)  # the small and the large beta of panel E
_TRAVERSAL = np.linspace(-2, 2, 9)
_ALIVE = 1.0  # pixels that a digit moves at least, when a latent goes from -1 to 1
_SAME = 0.7  # |cos| above which two motions are along about the same line
_TEXTS = Texts(__package__, "deep", "fig3")


def fig3(workspace: Workspace, results: Results) -> Result:
    """Figure 3: terms of deep beta-VAEs over beta, and traversals of their latents."""
    numbers = numbers_of(results)
    betas, (cosine, alive) = numbers["betas"], _angles(numbers)
    rows = zip(betas, _means(cosine, alive), alive.sum(1), strict=True)
    text = "The minima of TIE over various random initialisations follow a non-monotonic trend"
    assert isinstance(SWEEP.data, MovingDigit)
    return _TEXTS.result(
        {"": _draw(numbers)},
        [
            *deep.claims_of(numbers, "3", "app. C", falls(workspace, "a moving digit")),
            *deep.tie_claims(numbers, text, "fig. 3B", np.min),
            worsens_claim(numbers),
            axes_claim(numbers),
        ],
        **SWEEP.texts(numbers),
        side=SWEEP.data.side,
        angles=", ".join(f"{beta:g}: {mean:.2f} ({count})" for beta, mean, count in rows if count),
        fresh=deep.extremum(betas, deep.curves(numbers["fresh"], "tie"), False),
    )


class _Facts(deep.SeenAndFresh):
    """The form of the facts of a network."""

    squared_error: Number
    motions: Matrix


def study() -> Study:
    """Return the study of the figure."""
    return SWEEP.study("moving-digit", _describe, _pictured, _Facts)


def numbers_of(results: Results) -> Numbers:
    """Return terms and motions of all networks, and the traversals that are shown."""
    networks = SWEEP.trained(results)
    numbers = deep.gather(SWEEP.betas, networks)
    for name in ("squared_error", "motions"):
        numbers[name] = [network.facts[name] for network in networks]
    assert isinstance(SWEEP.data, MovingDigit)
    shape = (SWEEP.latents, len(_TRAVERSAL), SWEEP.data.side, SWEEP.data.side)
    groups = results.groups(_beta)
    best = [groups[beta].best_and_median(_accuracy)["best"] for beta in SHOWN]
    numbers["traversals"] = [
        unpack_array(network.facts[PICTURES], *shape, dtype=np.uint8) for network in best
    ]
    return numbers


def _beta(run: Run) -> float:
    return float(run.weights["beta"])


def _accuracy(network: Network) -> float:
    return -float(network.facts["tie"])


def _describe(model: FittedModel) -> Numbers:
    data, facts = model.run.data, deep.seen_and_fresh(model, SAMPLES)
    assert isinstance(data, MovingDigit)
    images = np.stack(model.traverse(values=_TRAVERSAL))[:, :, 0]  # (2, steps, H, W)
    return {
        **facts,
        # log p(x|z) = -(pixels log 2 pi + |x - decoded|^2) / 2
        "squared_error": -2 * facts["reconstruction"] - data.side**2 * math.log(2 * math.pi),
        "motions": motions(model),
        PICTURES: pack_array(np.clip(255 * images, 0, 255).round().astype(np.uint8)),
    }


def _pictured(results: Results) -> list[Network]:
    """Return the networks that are shown: those with the smallest true inference error so far."""
    groups = results.groups(_beta)
    best = [groups[beta].best_and_median(_accuracy).get("best") for beta in SHOWN]
    return [network for network in best if network is not None]


def motions(model: FittedModel) -> list[list[float]]:
    """Return the pixels, x and y, by which the digit moves as each latent goes from -1 to 1.

    (2, 2): the motion of the centre of mass of the positive part of the decoded image, with the
    other latent at 0.
    """
    codes = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])

    def centres(nets: Nets, z: Tensor) -> Tensor:
        pictures = nets.model.decode(z).mean.clamp(min=0).sum(1)  # (4, H, W)
        mass = pictures.sum((-2, -1))
        place = torch.arange(pictures.shape[-1], device=z.device, dtype=z.dtype)
        sums = [pictures.sum(-2) @ place, pictures.sum(-1) @ place]
        return torch.stack(sums, -1) / mass.unsqueeze(-1)

    ends = model.trained.alone(0, centres, codes.to(model.dataset.device)).cpu().numpy()  # (4, 2)
    moved: list[list[float]] = (ends[1::2] - ends[::2]).tolist()
    return moved


def cosines(moved: Values) -> tuple[Values, Values]:
    """Return |cos| of the angle between two motions (..., 2, 2), and the shorter length, (...)."""
    lengths = np.linalg.norm(moved, axis=-1)
    dots = np.abs(np.sum(moved[..., 0, :] * moved[..., 1, :], -1))
    return dots / np.maximum(lengths.prod(-1), 1e-9), lengths.min(-1)


def _angles(numbers: Numbers) -> tuple[Values, NDArray[np.bool_]]:
    """Return |cos| of the angle between the motions, and where both move, (betas, seeds) each."""
    count = len(numbers["betas"])
    cosine, shorter = cosines(np.array(numbers["motions"]).reshape(count, -1, 2, 2))
    return cosine, shorter > _ALIVE


def _means(cosine: Values, alive: NDArray[np.bool_]) -> Values:
    """Return means over the networks in which both latents move, (betas,); NaN without any."""
    sums, counts = np.where(alive, cosine, 0.0).sum(1), alive.sum(1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def worsens_claim(numbers: Numbers) -> Claim:
    """State how much worse reconstructions get, as far as numbers say."""
    betas, squares = numbers["betas"], deep.curves(numbers, "squared_error")
    small, large = (range_interval(squares[betas.index(beta)].tolist()) for beta in SHOWN)
    return _TEXTS.claim("worsens", small=small, large=large, shown=SHOWN, most=squares[-1].mean(),
                        last=betas[-1], count=squares.shape[1])  # fmt: skip


def axes_claim(numbers: Numbers) -> Claim:
    """Judge whether the two latents move the digit along lines at right angles."""
    small, large = (numbers["betas"].index(beta) for beta in SHOWN)
    cosine, alive = _angles(numbers)
    means, some = _means(cosine, alive), alive[large]
    mean = mean_over_networks(cosine[large][some]) if some.any() else Measured(*[math.nan] * 3)
    return _TEXTS.claim(
        "axes", means[large] < 0.2 and means[large] < means[small],
        contradicted=means[large] >= means[small], shown=SHOWN, large=mean, small=means[small],
        count=some.sum(), all=some.size, few=alive[small].sum(), chance=2 / math.pi,
        reason=_parallel(numbers, large, some, cosine[large][some]),
    )  # fmt: skip


def _parallel(numbers: Numbers, row: int, alive: NDArray[np.bool_], angles: Values) -> str:
    """Say how well networks do whose two latents move the digit along the same line."""
    same = angles > _SAME
    if not same.any() or same.all():
        return ""
    beta = numbers["betas"][row]
    kept, rate = (deep.curves(numbers, name)[row] for name in ("reconstruction", "rate"))
    objective = kept - beta * rate
    rest = objective[alive][~same]
    return (
        f"The median is {np.median(angles):.2f}; {same.sum()} networks move the digit along about "
        f"the same line by both latents (|cos| above {_SAME}). Their objective, "
        f"{objective[alive][same].mean():.2f} nats on average, lies within the others' "
        f"{rest.min():.2f} to {rest.max():.2f}: at this β it does not distinguish such networks "
        "from those with orthogonal axes. The paper shows one network."
    )


def _draw(numbers: Numbers) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure((9.3, 7.5), layout="constrained")
    grid = figure.add_gridspec(3, 3)
    places = [grid[0, 0], grid[0, 1], grid[0, 2], grid[1, 0], grid[2, 0], grid[2, 1]]
    axes = [figure.add_subplot(place) for place in places]
    names, tops = ("elbo", "tie", "reconstruction", "rate"), (True, False, None, None)
    for axis, name, top in zip(axes, names, tops, strict=False):
        deep.draw_term(axis, numbers, name, top)
    _draw_angles(axes[4], numbers)
    deep.draw_term(axes[5], numbers, "mie")
    titles = [*(deep.TERMS[name] for name in names), "Angle between the motions", deep.TERMS["mie"]]
    for letter, axis, title in zip("ABCDFG", axes, titles, strict=True):
        axis.set_title(f"{letter}  {title}")
    _draw_traversals(figure, grid[1, 1:], numbers)
    key = figure.add_subplot(grid[2, 2])
    key.legend(*axes[0].get_legend_handles_labels(), loc="upper left", title="A to D, G",
               alignment="left")  # fmt: skip
    key.set_axis_off()
    return figure


def _draw_traversals(figure: Figure, place: SubplotSpec, numbers: Numbers) -> None:
    """Draw panel E: a strip of images for each latent of the two networks."""
    strips = [
        (beta, latent, strip)
        for beta, images in zip(SHOWN, numbers["traversals"], strict=True)
        for latent, strip in enumerate(images)
    ]
    grid = place.subgridspec(len(strips), 1)
    for row, (beta, latent, strip) in enumerate(strips):
        axis = figure.add_subplot(grid[row])
        framed = np.pad(strip, ((0, 0), (0, 0), (1, 1)), constant_values=128)
        axis.imshow(np.concatenate(list(framed), 1), cmap="gray_r", vmin=0, vmax=255)
        axis.set_ylabel(f"z{'₁₂'[latent]}", rotation=0, ha="right", va="center")
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(visible=False)
        if latent == 0:
            axis.set_title(f"{'E  Traversals, ' if row == 0 else ''}"
                           f"β = {beta:g}")  # fmt: skip


def _draw_angles(axis: Axes, numbers: Numbers) -> None:
    """Draw the angle of every network whose latents both move the digit, and the mean."""
    betas = np.array(numbers["betas"])
    cosine, alive = _angles(numbers)
    degrees = np.degrees(np.arccos(np.clip(cosine, 0, 1)))
    rows, _ = np.nonzero(alive)
    axis.plot(betas[rows], degrees[alive], "o", color=SKY, markersize=2.5, alpha=0.5)
    some = alive.any(1)
    means = [degrees[row][alive[row]].mean() for row in np.flatnonzero(some)]
    axis.plot(betas[some], means, "o-", color=BLUE, markersize=3)
    axis.set_ylim(0, 95)
    axis.set_yticks([0, 30, 60, 90])
    deep.beta_axis(axis, numbers["betas"])
    axis.set_ylabel("degrees")
