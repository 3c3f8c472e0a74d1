"""How much arithmetic a training step does."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from unweave.training.step import Lanes


def count_operations(lanes: Lanes) -> int:
    """Count the operations of matrix products and convolutions in one step of one lane.

    The step is taken on a copy of the state, with a fixed batch and weights of zero.
    """
    trial = lanes.slice(0, 1)
    trial.state = trial.state.clone()
    trial.sampler.orders.zero_()
    trial.weights.values.zero_()
    counter = _OperationCounter()
    with counter:
        trial.compute_step()
    return counter.count


class _OperationCounter(TorchDispatchMode):
    """Counts the operations of matrix products and convolutions.

    torch's `FlopCounterMode` also tracks modules, which fails for losses that contain a gradient.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch loads its compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        from torch.utils.flop_counter import flop_registry  # imports Triton, which takes 0.5 s

        out = func(*args, **(kwargs or {}))
        if formula := flop_registry.get(func._overloadpacket):
            self.count += formula(*args, **(kwargs or {}), out_val=out)
        return out
