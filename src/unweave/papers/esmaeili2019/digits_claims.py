"""What [Esmaeili2019] says about MNIST and Fashion-MNIST, judged by the study's networks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unweave.papers.esmaeili2019.digits import HELD_OUT, INFORMATION
from unweave.papers.esmaeili2019.groups import (
    Finding,
    Group,
    Reader,
    claim_about,
    higher_by,
    shared_information,
    short,
)
from unweave.papers.esmaeili2019.table2 import category_information
from unweave.studies.drawing import Values
from unweave.studies.intervals import difference, range_interval
from unweave.studies.study import Network
from unweave.studies.workspace import Claim

Groups = Mapping[str, Group]
ACTIVE = 0.1  # nats of I(x; z_d) above which a dimension counts as informative
KEPT = 0.9  # share of digits above which identity counts as maintained
TOLD, NOTHING = 0.5, 0.05  # of I(class; label) / H(label): captured, and nothing of it
ORDERED = 0.75  # probability above which held-out digits count as lying beyond the others
_WEIGHTS = "The paper gives no weights and no number of steps for MNIST; ours may differ."


def style_names(network: Network) -> list[str]:
    """The names of the continuous latent variables."""
    latent = network.run.latent
    return [name for name, flag in zip(latent.names, latent.discrete, strict=True) if not flag]


def informations(network: Network) -> Values:
    """I(x; z_d) of the continuous latents at the end of training in nats."""
    return np.array([network.last(INFORMATION + name) for name in style_names(network)])


def _active(network: Network) -> float:
    return float((informations(network) > ACTIVE).sum())


def prior_information(network: Network) -> float:
    """How much the class tells of the digit that a draw of the prior shows, from 0 to 1."""
    return shared_information(network.facts["prior"])


def kept_at_ends(network: Network) -> float:
    """The share of digits that keep their identity at -3 and 3, whichever is lower."""
    return float(min(network.facts["kept"][0], network.facts["kept"][-1]))


def kept_least(network: Network) -> float:
    """The lowest share of digits that keep their identity, over all values."""
    return float(min(network.facts["kept"]))


def features_claims(groups: Groups) -> tuple[Claim, ...]:
    """Figure 5 and section 6.1: how many features are interpretable."""
    group = groups["HFVAE"]

    def find() -> Finding:
        counts = group.values(_active)
        got = f"{counts.mean():.1f} of 10 on average, from {counts.min():.0f} to {counts.max():.0f}"
        return Finding(got, bool(counts.min() <= 7 <= counts.max()), contradicted=False)

    return (
        claim_about(
            [group],
            "For the MNIST data the representation recovers 7 interpretable features",
            "sec. 6.1, fig. 5",
            f"7 of 10 dimensions with I(x; z_d) above {ACTIVE} nats (our bound) within the range "
            "over seeds",
            find,
            f"{_WEIGHTS} Whether a feature is interpretable is for the reader to say.",
        ),
    )


def pruning_claims(groups: Groups) -> tuple[Claim, ...]:
    """Figure 6: dimensions that are not needed."""
    group = groups["HFVAE"]

    def prunes() -> Finding:
        counts = 10 - group.values(_active)
        got = f"{counts.mean():.1f} on average, from {counts.min():.0f} to {counts.max():.0f}"
        return Finding(got, bool(counts.min() >= 1), contradicted=bool(counts.max() == 0))

    def decreases() -> Finding:
        last, peak = (np.array(each) for each in zip(*_uninformative(group), strict=True))
        got = f"{range_interval(last)} nats at the end; at most {range_interval(peak)} before"
        return Finding(got, bool((last < peak).all()), contradicted=bool((last >= peak).all()))

    pruned = [*_uninformative(group)]
    return (
        claim_about(
            [group],
            "The HFVAE objective prunes unnecessary features",
            "fig. 6",
            f"some dimensions with I(x; z_d) below {ACTIVE} nats (our bound) in every network",
            prunes,
            _WEIGHTS,
        ),
        claim_about(
            [group],
            "For uninformative dimensions the mutual information decreases to 0",
            "fig. 6",
            f"below {ACTIVE} nats (our bound) at the end, and below what it was during training",
            decreases if pruned else lambda: Finding("no such dimension", False, False),
            "" if pruned else "No dimension is uninformative.",
        ),
    )


def _uninformative(group: Group) -> list[tuple[float, float]]:
    """I(x; z_d) at the end, and its maximum, of every dimension that ends uninformative."""
    return [
        (value, float(network.curve(INFORMATION + name)[1].max()))
        for network in group.networks
        for name, value in zip(style_names(network), informations(network).tolist(), strict=True)
        if value <= ACTIVE
    ]


def identity_claims(groups: Groups) -> tuple[Claim, ...]:
    """Figure 7 and section 6.3: digit and thickness."""
    plain, structured, ours = (groups[name] for name in ("β-VAE", "β-SVAE", "HFVAE"))

    def not_able() -> Finding:
        mean = plain.mean(kept_at_ends)
        return Finding(short(mean), mean.high < KEPT, contradicted=False)

    def able() -> Finding:
        each = {name: groups[name].mean(kept_least) for name in ("β-SVAE", "HFVAE")}
        got = "; ".join(f"{name} {short(mean)}" for name, mean in each.items())
        return Finding(got, all(mean.low > KEPT for mean in each.values()), contradicted=False)

    def better() -> Finding:
        return _higher({"β-SVAE": structured, "HFVAE": ours}, {"β-VAE": plain}, kept_at_ends)

    def captures() -> Finding:
        above = _higher({"HFVAE": ours}, {"β-SVAE": structured}, prior_information)
        told = _told(ours, prior_information)
        return Finding(
            above.got, above.holds and told.holds, above.contradicted or told.contradicted
        )

    def fails() -> Finding:
        mean = structured.mean(prior_information)
        return Finding(short(mean), mean.high < TOLD, contradicted=mean.low > 1 - NOTHING)

    bound = "The bound is ours; with another one the verdict could differ."
    share = "share of digits that keep their identity"
    judge = "(judged by their five nearest neighbours in the dataset)"
    return (
        claim_about(
            [plain],
            "The β-VAE is not able to maintain digit identity as we vary thickness",
            "fig. 7",
            f"{share} {judge} below {KEPT} (our bound) at -3 or 3",
            not_able,
            bound,
        ),
        claim_about(
            [structured, ours],
            "The SVAE and HFVAE are able to maintain the digit identity across the entire range",
            "fig. 7",
            f"{share} above {KEPT} (our bound) at every value from -3 to 3",
            able,
            bound,
        ),
        claim_about(
            [plain, structured, ours],
            "Clearly, a structured VAE does a better job at disentangling digit vs thickness",
            "sec. 6.3",
            f"{share} at -3 and 3 higher than with a β-VAE",
            better,
        ),
        claim_about(
            [structured, ours],
            "The major advantage of HFVAE compared to β-structured VAE is the ability to generate "
            "samples from the prior which captures the digit",
            "sec. 6.3",
            "I(class; digit) / H(digit) of draws of the prior higher than with a β-SVAE, and above "
            f"{TOLD} (our bound)",
            captures,
        ),
        claim_about(
            [structured],
            "β-SVAE: the samples generated from the discrete prior do not correspond to a distinct "
            "digit",
            "sec. 6.3",
            f"I(class; digit) / H(digit) of draws of the prior below {TOLD} (our bound)",
            fails,
            bound,
        ),
    )


def _higher(these: Groups, those: Groups, read: Reader) -> Finding:
    """Find that every group of the first has a higher mean than every one of the second."""
    by = {
        f"{a}, {b}": difference(one.values(read), other.values(read))
        for a, one in these.items()
        for b, other in those.items()
    }
    means = {**these, **those}
    return higher_by(by, "; ".join(f"{name} {short(g.mean(read))}" for name, g in means.items()))


def _told(group: Group, read: Reader) -> Finding:
    """Find that a class tells much of a label; it is contradicted if it tells next to nothing."""
    mean = group.mean(read)
    return Finding(short(mean), mean.low > TOLD, contradicted=mean.high < NOTHING)


def unseen_claims(groups: Groups) -> tuple[Claim, ...]:
    """Figure 9 and section 6.4: combinations of digit and style that were never seen."""
    return tuple(
        claim
        for name in HELD_OUT
        for claim in (_reconstructs(groups, name), _extracts(groups, name))
    )


def unseen(name: str, what: str) -> Reader:
    """Read a number about one of the combinations that are held out."""
    return lambda network: float(network.facts["unseen"][name][what])


def _reconstructs(groups: Groups, name: str) -> Claim:
    pruned, whole = groups["zero-shot"], groups["HFVAE"]

    def find() -> Finding:
        beyond, right = (pruned.mean(unseen(name, what)) for what in ("beyond", "recognised"))
        nats = [group.mean(unseen(name, "distortion")).value for group in (pruned, whole)]
        got = (
            f"{short(beyond)} beyond others of their kind, {short(right)} the right digit; trained "
            f"on all digits {short(whole.mean(unseen(name, 'beyond')))} and "
            f"{short(whole.mean(unseen(name, 'recognised')))}; {nats[0]:.0f} against "
            f"{nats[1]:.0f} nats"
        )
        holds = beyond.low > ORDERED and right.low > 0.5
        return Finding(got, holds, contradicted=min(beyond.high, right.high) < 0.5)

    return claim_about(
        [pruned, whole],
        "The model trained on pruned data is able to reconstruct digits with values for the stroke "
        f"and character width that were never seen during training: {name}",
        "sec. 6.4, fig. 9",
        "more than half of the reconstructions show the right digit, with a thickness or width "
        "that lies beyond that of another reconstruction of its kind with a probability above "
        f"{ORDERED} (our bounds)",
        find,
        "The bound is ours; with another one the verdict could differ.",
    )


def _extracts(groups: Groups, name: str) -> Claim:
    pruned, whole = groups["zero-shot"], groups["HFVAE"]

    def find() -> Finding:
        read = unseen(name, "ordered")
        seen, all_ = pruned.mean(read), whole.mean(read)
        got = f"{short(seen)}; trained on all digits {short(all_)}"
        return Finding(got, seen.low > ORDERED, contradicted=seen.high < 0.5)

    return claim_about(
        [pruned, whole],
        "The encoder model is similarly able to extract features from previously unseen examples: "
        f"{name}",
        "sec. 6.4, fig. 9",
        "the code of a held-out digit lies beyond that of another digit of its kind with a "
        f"probability above {ORDERED} (our bound)",
        find,
        "The bound is ours; with another one the verdict could differ.",
    )


def category_claims(groups: Groups) -> tuple[Claim, ...]:
    """Section 6.3: how well the discrete variable captures classes, by dataset.

    `groups` has the HFVAEs of the three datasets by name.
    """
    fashion, digits, shapes = (groups[n] for n in ("Fashion-MNIST", "HFVAE", "2D Shapes"))
    measure = "I(category; label) / H(label)"

    def difficult() -> Finding:
        mean = shapes.mean(category_information)
        return Finding(short(mean), mean.high < TOLD, contradicted=mean.low > 1 - NOTHING)

    def middle() -> Finding:
        named = {"Fashion-MNIST": fashion, "MNIST": digits, "2D Shapes": shapes}
        values = {name: group.values(category_information) for name, group in named.items()}
        by = {
            "above": difference(values["Fashion-MNIST"], values["MNIST"]),
            "below": difference(values["MNIST"], values["2D Shapes"]),
        }
        each = (f"{name} {short(g.mean(category_information))}" for name, g in named.items())
        return higher_by(by, "; ".join(each))

    return (
        claim_about(
            [fashion],
            "In the case of the Fashion-MNIST, the classes are distinctive enough that our model "
            "can capture it in the discrete variable",
            "sec. 6.3",
            f"{measure} above {TOLD} (our bound)",
            lambda: _told(fashion, category_information),
        ),
        claim_about(
            [shapes],
            "In the case of the dSprites dataset, the shapes are very similar, which makes it "
            "difficult for our model to capture them effectively in a discrete variable",
            "sec. 6.3",
            f"{measure} below {TOLD} (our bound)",
            difficult,
        ),
        claim_about(
            [fashion, digits, shapes],
            "The MNIST dataset resides in the middle of this spectrum",
            "sec. 6.3",
            f"{measure} lower than on Fashion-MNIST and higher than on 2D Shapes",
            middle,
        ),
    )
