"""Judge what [Esmaeili2019] says about MNIST and Fashion-MNIST by the study's networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from unweave.papers.esmaeili2019.digits import HELD_OUT, INFORMATION
from unweave.papers.esmaeili2019.table2 import (
    above_zero,
    category_information,
    shared_information,
)
from unweave.studies.drawing import Values
from unweave.studies.intervals import difference_interval, range_interval
from unweave.studies.study import Group, Network, Reader
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured

Groups = Mapping[str, Group]
ACTIVE = 0.1  # nats of I(x; z_d) above which a dimension counts as informative
KEPT = 0.9  # share of digits above which identity counts as maintained
MUCH, NOTHING = 0.5, 0.05  # of I(class; label) / H(label): captured, and not at all
ORDERED = 0.75  # probability above which held-out digits count as lying beyond the others


def texts_of(figure: str) -> Texts:
    """Return the texts of a figure of this study."""
    return Texts(__package__, "digits", figure)


def style_names(network: Network) -> list[str]:
    """Return the names of the continuous latent variables."""
    latent = network.run.latent
    return [name for name, flag in zip(latent.names, latent.discrete, strict=True) if not flag]


def informations(network: Network) -> Values:
    """Return I(x; z_d) of the continuous latents at the end of training in nats."""
    return np.array([network.last(INFORMATION + name) for name in style_names(network)])


def _active(network: Network) -> float:
    return float((informations(network) > ACTIVE).sum())


def prior_information(network: Network) -> float:
    """Return how much the class explains the digit in samples of the prior, from 0 to 1."""
    return shared_information(network.facts["prior"])


def kept_at_ends(network: Network) -> float:
    """Return the share of digits that keep their identity at -3 and 3, whichever is lower."""
    return float(min(network.facts["kept"][0], network.facts["kept"][-1]))


def kept_least(network: Network) -> float:
    """Return the lowest share of digits that keep their identity, over all values."""
    return float(min(network.facts["kept"]))


def features_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge figure 5 and section 6.1: how many features are interpretable."""
    counts = groups["HFVAE"].values(_active)
    return (
        texts_of("fig5").claim(
            "features", counts.min() <= 7 <= counts.max(), contradicted=False,
            needs=(groups["HFVAE"],), active=ACTIVE, mean=counts.mean(), low=counts.min(),
            high=counts.max(),
        ),
    )  # fmt: skip


def pruning_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge figure 6: dimensions that are not needed."""
    texts, group = texts_of("fig6"), groups["HFVAE"]
    counts, pruned = 10 - group.values(_active), _uninformative(group)
    last, peak = np.array(pruned or [(np.nan, np.nan)]).T
    values = f"{range_interval(last)} nats at the end; at most {range_interval(peak)} before"
    return (
        texts.claim("prunes", counts.min() >= 1, contradicted=counts.max() == 0, needs=(group,),
                    active=ACTIVE, mean=counts.mean(), low=counts.min(), high=counts.max()),
        texts.claim("decreases", bool((last < peak).all()), needs=(group,), active=ACTIVE,
                    contradicted=bool((last >= peak).all()),
                    values=values if pruned else "no such dimension",
                    reason="" if pruned else "No dimension is uninformative."),
    )  # fmt: skip


def _uninformative(group: Group) -> list[tuple[float, float]]:
    """Return I(x; z_d) at the end, and its maximum, of every dimension that ends uninformative."""
    return [
        (value, float(network.curve(INFORMATION + name)[1].max()))
        for network in group.networks
        for name, value in zip(style_names(network), informations(network).tolist(), strict=True)
        if value <= ACTIVE
    ]


def identity_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge figure 7 and section 6.3: digit and thickness."""
    texts = texts_of("fig7")
    plain, structured, ours = (groups[name] for name in ("β-VAE", "β-SVAE", "HFVAE"))
    least = {name: groups[name].mean(kept_least) for name in ("β-SVAE", "HFVAE")}
    better = [_difference(group, plain, kept_at_ends) for group in (structured, ours)]
    higher = above_zero([_difference(ours, structured, prior_information)])
    captures, distinct = ours.mean(prior_information), structured.mean(prior_information)
    ends = plain.mean(kept_at_ends)
    return (
        texts.claim("not_able", ends.high < KEPT, contradicted=False, needs=(plain,), bound=KEPT,
                    mean=f"{ends:.2f}"),
        texts.claim("able", all(mean.low > KEPT for mean in least.values()), contradicted=False,
                    needs=(structured, ours), bound=KEPT,
                    means="; ".join(f"{name} {mean:.2f}" for name, mean in least.items())),
        texts.claim("better", **above_zero(better), needs=(plain, structured, ours),
                    means=_means(groups, ("β-SVAE", "HFVAE", "β-VAE"), kept_at_ends)),
        texts.claim("captures", higher["holds"] and captures.low > MUCH,
                    contradicted=higher["contradicted"] or captures.high < NOTHING,
                    needs=(structured, ours), bound=MUCH,
                    means=_means(groups, ("HFVAE", "β-SVAE"), prior_information)),
        texts.claim("not_distinct", distinct.high < MUCH, contradicted=distinct.low > 1 - NOTHING,
                    needs=(structured,), bound=MUCH, mean=f"{distinct:.2f}"),
    )  # fmt: skip


def _difference(ours: Group, theirs: Group, read: Reader) -> Measured:
    return difference_interval(ours.values(read), theirs.values(read))


def _means(groups: Groups, names: Iterable[str], read: Reader) -> str:
    return "; ".join(f"{name} {groups[name].mean(read):.2f}" for name in names)


def unseen_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge figure 9 and section 6.4: combinations of digit and style that were never seen."""
    texts = texts_of("fig9")
    pruned, whole = needs = groups["zero-shot"], groups["HFVAE"]
    claims = []
    for name in HELD_OUT:

        def mean(group: Group, what: str, name: str = name) -> Measured:
            return group.mean(lambda network: float(network.facts["unseen"][name][what]))

        beyond, right, order = (mean(pruned, what) for what in ("beyond", "recognised", "ordered"))
        claims += [
            texts.claim(
                "reconstructs", beyond.low > ORDERED and right.low > 0.5, needs=needs, digits=name,
                contradicted=min(beyond.high, right.high) < 0.5, bound=ORDERED,
                beyond=f"{beyond:.2f}", right=f"{right:.2f}",
                all_beyond=f"{mean(whole, 'beyond'):.2f}",
                all_right=f"{mean(whole, 'recognised'):.2f}",
                nats=mean(pruned, "distortion").value, all_nats=mean(whole, "distortion").value,
            ),
            texts.claim("extracts", order.low > ORDERED, contradicted=order.high < 0.5, needs=needs,
                        digits=name, bound=ORDERED, pruned=f"{order:.2f}",
                        whole=f"{mean(whole, 'ordered'):.2f}"),
        ]  # fmt: skip
    return tuple(claims)


def category_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge section 6.3: how well the discrete variable captures classes, by dataset.

    `groups` has the HFVAEs of the three datasets by name.
    """
    texts, read = texts_of("fig11"), category_information
    fashion, digits, shapes = (groups[n] for n in ("Fashion-MNIST", "HFVAE", "2D Shapes"))
    named = {"Fashion-MNIST": fashion, "MNIST": digits, "2D Shapes": shapes}
    middle = above_zero([_difference(fashion, digits, read), _difference(digits, shapes, read)])
    garments, sprites = fashion.mean(read), shapes.mean(read)
    return (
        texts.claim("fashion", garments.low > MUCH, contradicted=garments.high < NOTHING,
                    needs=(fashion,), bound=MUCH, mean=f"{garments:.2f}"),
        texts.claim("shapes", sprites.high < MUCH, contradicted=sprites.low > 1 - NOTHING,
                    needs=(shapes,), bound=MUCH, mean=f"{sprites:.2f}"),
        texts.claim("digits", **middle, needs=named.values(), means=_means(named, named, read)),
    )  # fmt: skip
