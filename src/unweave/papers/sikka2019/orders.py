"""Control for figures 2 and 3 of [Sikka2019]: the true inference error by the order of latents.

As eq. 25 and 27 are printed, latent i stands for source i. No order and no sign of the latents is
likelier than another, so over initialisations the error is on average its mean over all of them,
which can be computed for each network: `Errors.shuffled`.
"""

from typing import NamedTuple

import numpy as np
from typing_extensions import TypedDict

from unweave.data import Mixing, MovingDigit
from unweave.evaluation.model import FittedModel
from unweave.papers.sikka2019 import deep
from unweave.presets.sikka2019 import MIXED_DIGITS, MOVING_DIGIT
from unweave.studies.drawing import BLUE, INK, ORANGE, Values, panels
from unweave.studies.study import NotTrained, Results, Study, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result, Workspace
from unweave.training.records import Number

# A seed that figures 2 and 3 do not have.
SWEEPS = {
    "mixed digits": deep.Sweep(MIXED_DIGITS, latents=10, betas=(1.0, 4.0, 10.0, 25.0, 50.0, 100.0),
                               seeds=(100,)),
    "a moving digit": deep.Sweep(MOVING_DIGIT, latents=2, betas=(1.0, 3.0, 6.0, 10.0, 16.0),
                                 seeds=(300,)),
}  # fmt: skip
NEAR = 0.01  # nats below the limit, by which networks without information may miss it
_TEXTS = Texts(__package__, "orders")


class _Facts(TypedDict):
    """The form of the facts of a network."""

    shuffled: Number
    printed: Number
    tie: Number
    rate: Number
    limit: Number


def describe(model: FittedModel) -> Numbers:
    """Return the errors of a network, and the limit that all networks have without information."""
    data = model.run.data
    assert isinstance(data, Mixing | MovingDigit)
    dataset, truth = deep.observed(data, model.dataset.device)
    terms = deep.terms_of(model, dataset, truth, samples=1)
    nothing = np.zeros((dataset.size, model.run.latent.size))
    limit = deep.inference_errors(nothing, nothing + 1, truth).shuffled
    return {name: terms[name] for name in ("shuffled", "printed", "tie", "rate")} | {"limit": limit}


STUDY = Study("sikka2019", "orders", [run for sweep in SWEEPS.values() for run in sweep.runs],
              describe, precision="fp32", form=_Facts)  # fmt: skip


class Averages(NamedTuple):
    """Errors averaged over orders and signs of latents, (betas, seeds), and their limit."""

    values: Values
    limit: float

    @property
    def fall(self) -> bool:
        """Whether they fall at every step, in all networks, and never below their limit."""
        steps = self.values[1:].max(1) < self.values[:-1].min(1)
        return bool(steps.all() and self.values.min() >= self.limit - NEAR)


def averages(results: Results, name: str) -> Averages:
    """Return the averages of the networks on one dataset."""
    facts = [network.facts for network in SWEEPS[name].trained(results)]
    values = np.array([each["shuffled"] for each in facts]).reshape(len(SWEEPS[name].betas), -1)
    return Averages(values, float(np.mean([each["limit"] for each in facts])))


def trained_averages(results: Results) -> dict[str, Averages]:
    """Return the averages on every dataset with a network for each weight; raise without any."""
    there = {network.key for network in results.networks}
    names = [name for name, sweep in SWEEPS.items() if {r.digest for r in sweep.runs} <= there]
    if not names:
        raise NotTrained("no dataset has a network for every β yet: run the same command again")
    return {name: averages(results, name) for name in names}


def falls(workspace: Workspace, name: str) -> bool:
    """Return whether the control is trained, and its averages on one dataset fall with beta."""
    try:
        return trained_averages(stored_results(STUDY, workspace.out))[name].fall
    except (NotTrained, KeyError):
        return False


def orders(workspace: Workspace, results: Results) -> Result:
    """Draw the error as printed, on average over orders and signs of latents."""
    found = trained_averages(results)
    figure, axes = panels(1, len(found), width=3.6, height=2.6)
    for axis, (name, each) in zip(axes, found.items(), strict=True):
        betas = SWEEPS[name].betas
        axis.plot(betas, each.values.mean(1), "o-", color=BLUE, markersize=4,
                  label="mean over orders and signs")  # fmt: skip
        ties = [network.facts["tie"] for network in SWEEPS[name].trained(results)]
        axis.plot(betas, ties, "s--", color=ORANGE, markersize=4, label="matched")
        axis.axhline(each.limit, color=INK, linewidth=0.9, linestyle=":", label="no information")
        deep.beta_axis(axis, betas)
        axis.set_ylabel("TIE (nats)")
        axis.set_title(name.capitalize())
    axes[0].legend(loc="best")
    claims = [average_claim(name, each) for name, each in found.items()]
    seeds = ", ".join(f"{SWEEPS[name].seeds[0]} ({name})" for name in found)
    figures = {"mixed digits": "2", "a moving digit": "3"}
    trained_as = ("s " if len(found) > 1 else " ") + " and ".join(figures[name] for name in found)
    return _TEXTS.result({"": figure}, claims, seeds=seeds, trained_as=trained_as)


def average_claim(name: str, found: Averages) -> Claim:
    """Judge whether the average over orders and signs falls with beta, to its limit."""
    betas, means = SWEEPS[name].betas, found.values.mean(1)
    return _TEXTS.claim(
        "falls", found.fall, contradicted=False, data=name, near=NEAR, limit=found.limit,
        first=means[0], last=means[-1], betas=(betas[0], betas[-1]),
    )  # fmt: skip
