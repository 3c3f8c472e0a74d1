"""Objectives that weigh the parts of the rate separately."""

from __future__ import annotations

from typing import Literal

from unweave.aggregate import Estimator, decompose
from unweave.noise import Noise
from unweave.objectives.game import MODEL, Batch, Game, Memo, Nets, Term, Terms, Turn, elbo
from unweave.schedules import Weight
from unweave.spec import spec, tag


@spec
class BetaTCVAE(Game):
    """E_q[-log p(x|z)] + alpha I(x; z) + beta TC(z) + gamma sum_v KL(q(z_v) || p(z_v)).

    [Chen2018] eq. 4, with q(z) estimated from the batch. The three parts sum to the rate on the
    sample; the rate in closed form is reported beside them.
    """

    alpha: Weight = 1.0
    beta: Weight = 6.0  # [Chen2018] sec. 6: the best beta on dSprites
    gamma: Weight = 1.0
    estimator: Estimator = "stratified"
    kind: Literal["beta-tcvae"] = tag("beta-tcvae")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The model moves."""
        return (Turn(MODEL, self.model),)

    def model(self, nets: Nets, batch: Batch, noise: Noise, memo: Memo) -> tuple[Terms, Memo]:
        """The model's loss."""
        passed = nets.model(batch.x, noise)
        parts = decompose(passed.q, passed.p, passed.z, batch.dataset_size, self.estimator)
        terms = elbo(passed)
        return {
            "distortion": terms["distortion"],
            "mutual_information": Term(self.alpha, parts.mutual_information),
            "total_correlation": Term(self.beta, parts.total_correlation),
            "dimension_kl": Term(self.gamma, parts.dimension_kl),
            "rate": Term(0.0, terms["rate"].value.detach()),
        }, {}
