"""The state of runs that train side by side: parameters, buffers and optimiser moments."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.networks import Shape, initialise
from unweave.objectives import MODEL, Nets
from unweave.training.flat_parameters import FlatParameters, Tensors
from unweave.training.memory import shared
from unweave.training.run import Run


class LaneState:
    """Everything that training changes in L runs of one structure, each tensor stacked (L, ...).

    These tensors and the number of the step are a complete checkpoint. Training writes to them in
    place, so recorded CUDA graphs and forked worker processes see every change.

    Attributes:
        names: the names of each player's parameters.
        parameters: parameters by name, in the order of the networks.
        buffers: running statistics of normalisation layers, by name.
        moments: the optimisers' moments, by moment and parameter name.
        half_copies: bfloat16 copies of the parameters of linear layers, if training uses them.
        flat_parameters: the memory of each player's parameters and moments.
    """

    def __init__(
        self,
        nets: Nets,
        optimisers: Mapping[str, Adam],
        parameters: Tensors,
        buffers: Tensors,
        half: bool = False,
    ) -> None:
        self.names = {
            player: [name for name in parameters if nets.player_of(name) == player]
            for player in optimisers
        }
        self.flat_parameters = {
            player: FlatParameters(
                {name: parameters[name] for name in names}, optimisers[player], half
            )
            for player, names in self.names.items()
        }
        views: Tensors = {}
        self.moments: dict[str, Tensors] = {}
        self.half_copies: Tensors = {}
        linear = _linear_parameters(nets)
        for flat in self.flat_parameters.values():
            views |= flat.views(flat.flat)
            for moment, values in flat.moments.items():
                self.moments.setdefault(moment, {}).update(flat.views(values))
            if flat.half is not None:
                copies = flat.views(flat.half)
                self.half_copies |= {name: copies[name] for name in copies if name in linear}
        self.parameters = {name: views[name] for name in parameters}
        self.buffers = {name: shared(value) for name, value in buffers.items()}
        self.refresh()

    @property
    def tensors(self) -> dict[str, Tensors]:
        """All tensors, by kind ("parameters", "buffers" or a moment) and name."""
        return {"parameters": self.parameters, "buffers": self.buffers, **self.moments}

    def refresh(self) -> None:
        """Bring the bfloat16 copies up to date with the parameters."""
        for flat in self.flat_parameters.values():
            flat.refresh()

    def lane(self, lane: int) -> Tensors:
        """Return the tensors of one lane, named "parameters/...", "buffers/..." or "moment/..."."""
        return {
            f"{kind}/{name}": value[lane]
            for kind, tensors in self.tensors.items()
            for name, value in tensors.items()
        }

    def restore(self, lane: int, saved: Tensors) -> None:
        """Overwrite one lane with tensors that `lane` returned."""
        for name, value in self.lane(lane).items():
            value.copy_(saved[name])
        self.refresh()

    def slice(self, start: int, stop: int) -> Self:
        """View neighbouring lanes; both states share their memory. Only on the CPU."""
        return self._map(lambda value: value[start:stop])

    def clone(self) -> Self:
        """Copy the tensors, for a trial whose results are thrown away. Only on the CPU."""
        return self._map(Tensor.clone)

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        state = copy.copy(self)
        kinds = {
            kind: {name: function(value) for name, value in tensors.items()}
            for kind, tensors in self.tensors.items()
        }
        state.parameters, state.buffers = kinds.pop("parameters"), kinds.pop("buffers")
        state.moments = kinds
        return state

    def finite(self) -> list[bool]:
        """Return for each lane whether all of its numbers are finite.

        Sums are many times as fast as looking at every number, and one bad number spoils its sum.
        Only where a sum is not finite, because of that or because it is too large, all are checked.
        """
        sums = [
            value.unsqueeze(-1).sum(tuple(range(1, value.dim() + 1)))
            for tensors in self.tensors.values()
            for value in tensors.values()
        ]
        good = torch.stack(sums).isfinite().all(0).tolist()
        return [
            sure or all(bool(value.isfinite().all()) for value in self.lane(lane).values())
            for lane, sure in enumerate(good)
        ]


def initial_state(
    runs: Sequence[Run], nets: Nets, shape: Shape, device: torch.device, half: bool
) -> LaneState:
    """Return the state before the first step: the tensors of a run depend on its seed alone."""
    run = runs[0]
    lanes = [_initial_tensors(each, shape, device) for each in runs]
    parameters, buffers = (
        {name: torch.stack([lane[kind][name] for lane in lanes]) for name in lanes[0][kind]}
        for kind in (0, 1)
    )
    optimisers = {MODEL: run.optimiser, **run.objective.optimisers}
    return LaneState(nets, optimisers, parameters, buffers, half)


def _initial_tensors(run: Run, shape: Shape, device: torch.device) -> tuple[Tensors, Tensors]:
    nets = run.build(shape, run.seed)
    parameters = initialise(nets, Noise(run.seed, 0, "initial", device), run.init)
    tensors = nets.state_dict().items()
    return parameters, {name: v.to(device) for name, v in tensors if name not in parameters}


def check_tensors(what: str, found: Tensors, expected: Tensors) -> None:
    """Refuse tensors that have other names, types or shapes than those of a run."""
    for name in {**expected, **found}:
        forms = [
            f"{tuple(each[name].shape)} of {each[name].dtype}" if name in each else "none"
            for each in (expected, found)
        ]
        if forms[0] != forms[1]:
            raise ValueError(
                f"expected {name} of {what}: {forms[0]}, got {forms[1]}; use another store"
            )


def model_weights(saved: Tensors) -> Tensors:
    """Select parameters and buffers from the tensors that `LaneState.lane` returned."""
    kinds = {"parameters", "buffers"}
    split = {name: name.split("/", 1) for name in saved}
    return {name: saved[key] for key, (kind, name) in split.items() if kind in kinds}


def _linear_parameters(nets: nn.Module) -> set[str]:
    layers = [(name, m) for name, m in nets.named_modules() if isinstance(m, nn.Linear)]
    return {f"{name}.{part}" for name, m in layers for part, _ in m.named_parameters()}
