"""Optimisers as frozen values; their step is a function of explicit state."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat
from torch import Tensor
from torch.optim.adam import adam

from unweave.core.spec import spec, tag

Decay = Annotated[float, Field(ge=0, lt=1)]


@spec
class Adam:
    """Adam, and AMSGrad with `amsgrad`.  [Kingma2015] alg. 1.

    The defaults are those of [Kim2018] app. A for the model.
    """

    lr: PositiveFloat = 1e-4
    """Learning rate."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Decay rates of the two moments."""
    eps: PositiveFloat = 1e-8
    """Number added to the denominator for stability."""
    amsgrad: bool = False
    """Whether to use the largest second moment so far (AMSGrad)."""
    kind: Literal["adam"] = tag("adam")

    @property
    def also_cites(self) -> tuple[str, ...]:
        """The source of AMSGrad, [Reddi2018] alg. 2, if it is used."""
        return ("Reddi2018",) if self.amsgrad else ()

    @property
    def moments(self) -> tuple[str, ...]:
        """Names of the tensors kept for every parameter."""
        return ("first", "second", "largest") if self.amsgrad else ("first", "second")

    def update(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        moments: dict[str, list[Tensor]],
        counts: list[Tensor],
    ) -> None:
        """Take one step in place; `counts` has the number of steps done, for each parameter."""
        adam(
            parameters,
            gradients,
            moments["first"],
            moments["second"],
            moments.get("largest", []),
            counts,
            fused=True,
            amsgrad=self.amsgrad,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=self.lr,
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )
