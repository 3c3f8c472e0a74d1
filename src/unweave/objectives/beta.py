"""The VAE and the beta-VAE."""

from __future__ import annotations

from typing import Literal

from unweave.noise import Noise
from unweave.objectives.game import MODEL, Batch, Game, Memo, Nets, Term, Terms, Turn, elbo
from unweave.schedules import Weight
from unweave.spec import spec, tag


@spec
class VAE(Game):
    """E_q[-log p(x|z)] + KL(q(z|x) || p(z)): the negative evidence lower bound.

    [Kingma2014] eq. 3.
    """

    kind: Literal["vae"] = tag("vae")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The model moves."""
        return (Turn(MODEL, self.model),)

    def model(self, nets: Nets, batch: Batch, noise: Noise, memo: Memo) -> tuple[Terms, Memo]:
        """The model's loss."""
        return elbo(nets.model(batch.x, noise)), {}


@spec
class BetaVAE(Game):
    """E_q[-log p(x|z)] + beta KL(q(z|x) || p(z)).  [Higgins2017] eq. 4."""

    beta: Weight = 4.0  # [Kim2018] sec. 6: the best beta on 2D Shapes
    kind: Literal["beta-vae"] = tag("beta-vae")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The model moves."""
        return (Turn(MODEL, self.model),)

    def model(self, nets: Nets, batch: Batch, noise: Noise, memo: Memo) -> tuple[Terms, Memo]:
        """The model's loss."""
        terms = elbo(nets.model(batch.x, noise))
        return terms | {"rate": Term(self.beta, terms["rate"].value)}, {}
