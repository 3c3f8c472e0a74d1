"""Lanes: runs of one structure that train as one program on stacked parameters (L, ...)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from unweave import kernels
from unweave.core.noise import Noise
from unweave.core.schedules import at
from unweave.core.spec import lane_fields
from unweave.data import Dataset
from unweave.networks import UserModule, frozen_statistics, initialise
from unweave.objectives import MODEL, Batch, LabelTargets, reduce_terms, with_labels
from unweave.objectives.base import BaseObjective
from unweave.training.compile import fused
from unweave.training.flat_parameters import FlatParameters, Tensors, alike
from unweave.training.memory import shared
from unweave.training.precision import Precision, half_precision, products
from unweave.training.run import Run
from unweave.training.sampler import Sampler

_AHEAD = 200  # steps whose weights are worked out at once

Played = tuple[Tensor, Tensors, Tensors, Tensors]  # loss, terms, terms weighted, carry


class Lanes:
    """The state of L runs that differ only in seed and weights, and the step that moves them.

    The state is explicit: `step`, `parameters`, `buffers` (running statistics of normalisations)
    and `moments`, each tensor stacked (L, ...). All else is a function of it, so saving it is a
    checkpoint and nothing is lost by stopping.

    A step reads the number of the step, its weights and its batches from tensors on the device and
    writes to the state in place, so that a step recorded once can be replayed (see `engine.py`).
    `prepare` puts there what the host works out for many steps at a time.
    """

    def __init__(
        self,
        runs: list[Run],
        dataset: Dataset,
        device: torch.device,
        precision: Precision = "fp32",
        compiles: bool = False,
    ) -> None:
        run = runs[0]
        self.runs, self.dataset, self.device, self.precision = runs, dataset, device, precision
        self.compiles = compiles and device.type == "cuda"
        self.nets = run.build(dataset.shape).to(device)
        self.optimisers = {MODEL: run.optimiser, **run.objective.optimisers}
        self.updates = [turn.player for turn in run.objective.updates]
        self.teacher = LabelTargets(run.labels, run.latent, dataset)
        self.step = 0
        initial = [initialise(self.nets, Noise(r.seed, 0, "initial", device), r.init) for r in runs]
        self._hold({name: torch.stack([v[name] for v in initial]) for name in initial[0]})
        self.buffers = {
            name: shared(torch.stack([value] * len(runs)))
            for name, value in self.nets.state_dict().items()
            if name not in self.parameters
        }
        self._refresh()
        self._arrange()

    def _hold(self, parameters: Tensors) -> None:
        """Give parameters memory, and their moments and copies in half precision beside them."""
        self.names = {
            player: [name for name in parameters if self.nets.player_of(name) == player]
            for player in self.optimisers
        }
        half = self.device.type == "cuda" and self.precision == "bf16"
        self.flat_parameters = {
            player: FlatParameters(
                {name: parameters[name] for name in names}, self.optimisers[player], half
            )
            for player, names in self.names.items()
        }
        self.parameters: Tensors = {}
        self.moments: dict[str, Tensors] = {}
        self.halves: Tensors = {}  # what layers take for a parameter
        linear = _linear(self.nets)
        for flat in self.flat_parameters.values():
            self.parameters |= flat.views(flat.flat)
            for moment, values in flat.moments.items():
                self.moments.setdefault(moment, {}).update(flat.views(values))
            if flat.half is not None:
                views = flat.views(flat.half)
                self.halves |= {name: view for name, view in views.items() if name in linear}
        # In the order of the networks.
        self.parameters = {name: self.parameters[name] for name in parameters}

    def _refresh(self) -> None:
        """Bring copies of the parameters up to date with them."""
        for flat in self.flat_parameters.values():
            flat.refresh()

    def _arrange(self) -> None:
        """What follows from the runs: weights, seeds, batches, and how lanes are mapped."""
        self.weights = {n: [run.weights[n] for run in self.runs] for n in self.runs[0].weights}
        self.levels = torch.empty((_AHEAD, len(self.weights), len(self.runs)), device=self.device)
        self._ahead = range(0)  # the steps whose weights are in `levels`
        self.clock = torch.full((len(self.runs),), self.step, device=self.device)
        self.seeds = torch.tensor([run.seed for run in self.runs], device=self.device)
        batch = self.runs[0].batch_size
        self.sampler = Sampler(self.seeds, self.dataset, batch, len(self.updates))
        self.vectorised = len(self.runs) > 1 and vectorises(self.nets, self.device)
        self._read = fused(self._now, self.compiles)
        self._plays = [
            fused(partial(self._differentiate, turn), self.compiles)
            for turn in range(len(self.updates))
        ]

    def part(self, start: int, stop: int) -> Lanes:
        """Some of the lanes on the same state, with all else their own: to run beside the others.

        Modules are copied, since a call puts the parameters of a lane into them.
        """
        part, held = copy.copy(self), slice(start, stop)
        tensors = [*self.nets.parameters(), *self.nets.buffers()]
        part.nets = copy.deepcopy(self.nets, {id(tensor): tensor for tensor in tensors})
        part.runs = self.runs[held]
        part.parameters = {name: value[held] for name, value in self.parameters.items()}
        part.buffers = {name: value[held] for name, value in self.buffers.items()}
        part.moments = {
            moment: {name: value[held] for name, value in tensors.items()}
            for moment, tensors in self.moments.items()
        }
        part._arrange()
        return part

    def operations(self) -> int:
        """Operations of matrix products and convolutions in a step of one lane, by trying one.

        Any batch and any weights will do, and the state is a copy.
        """
        alone = self.part(0, 1)
        for tensors in alone._tensors.values():
            tensors.update({name: value.clone() for name, value in tensors.items()})
        alone.sampler.orders.zero_()
        alone.levels.zero_()
        counted = _Operations()
        with counted:
            alone.move()
        return counted.count

    def prepare(self) -> int:
        """Make ready for the next step, and say how many can be taken before doing so again."""
        self.sampler.turn_to(self.step)
        if self.step not in self._ahead:
            start = self.step - self.step % _AHEAD
            self._ahead = range(start, start + _AHEAD)
            rows = [
                [[at(weight, s) for weight in lanes] for lanes in self.weights.values()]
                for s in self._ahead
            ]
            self.levels.copy_(torch.tensor(rows).reshape(self.levels.shape))
        return min(self._ahead.stop - self.step, self.sampler.left(self.step))

    def advance(self) -> tuple[Tensors, Tensors]:
        """One step of the game for all lanes.

        Returns the mean of every term, and its share of the loss (weighted), (L,) each.
        """
        self.prepare()
        moved = self.move()
        self.step += 1
        return moved

    def move(self) -> tuple[Tensors, Tensors]:
        """What a step does on the device, where the host need not look; the count is `step`'s."""
        weights, indices = self._read(self.clock, self.levels, self.sampler.orders)
        values: Tensors = {}
        weighted: Tensors = {}
        carry: Tensors = {}
        for turn, seen in enumerate(indices):
            means, shares, carry = self._turn(turn, weights, seen, carry)
            values |= means
            weighted |= shares
        self.clock += 1
        return values, weighted

    @torch.no_grad()
    def evaluate(self, batches: Tensor) -> Tensors:
        """The mean of every term over fixed batches, (L,) each, without changing the state.

        batches: (N, B) numbers of observations, which all lanes see with the same noise. As in
        training, every update of a step has a batch of its own: the n-th step begins at batch n.
        """
        weights = {
            name: torch.tensor([at(weight, self.step) for weight in lanes], device=self.device)
            for name, lanes in self.weights.items()
        }
        sums: Tensors = {}
        with frozen_statistics(self.nets), products("fp32"):
            for step in range(len(batches)):
                carried: Tensors = {}
                found: Tensors = {}  # as in the log, the last update that reports a term counts
                for turn, player in enumerate(self.updates):
                    seen = batches[(step + turn) % len(batches)].expand(len(self.runs), -1)
                    fixed = {"seed": self.seeds * 0, "step": self.seeds * 0 + step}
                    batch = self._batch(seen) | fixed
                    own = {name: self.parameters[name] for name in self.names[player]}
                    others = self._others(player, self.parameters, self.buffers)
                    means, carried = self._evaluate(turn, own, others, weights, batch, carried)
                    found |= means
                sums = {name: sums.get(name, 0.0) + value for name, value in found.items()}
        return {name: value / len(batches) for name, value in sums.items()}

    def _evaluate(self, turn: int, *inputs: Tensors) -> tuple[Tensors, Tensors]:
        """Means of the terms of one update, (L,), and what it carries to the next."""
        play = vmap(self._player(turn)) if self.vectorised else self._player(turn)
        results = [play(*lane) for lane in self._inputs(inputs)]
        _, means, _, carried = zip(*results, strict=True)
        return self._gather(list(means)), self._gather(list(carried))

    def _turn(
        self, turn: int, weights: Tensors, seen: Tensor, carry: Tensors
    ) -> tuple[Tensors, Tensors, Tensors]:
        """One player moves, on the observations with numbers `seen` (L, B)."""
        batch = self._batch(seen)
        current = self.parameters | self.halves
        gradients, *told = self._plays[turn](current, self.buffers, weights, batch, carry)
        self._update(turn, gradients)
        means, shares, left = told
        return means, shares, left

    def _now(self, clock: Tensor, levels: Tensor, orders: Tensor) -> tuple[Tensors, Tensor]:
        """The value of every weight at this step, (L,) each, and what the updates see (T, L, B)."""
        now = levels.index_select(0, clock[:1] % _AHEAD)[0]
        weights = dict(zip(self.weights, now, strict=True))
        return weights, self.sampler.indices(clock[0], orders)

    def _differentiate(
        self,
        turn: int,
        current: Tensors,
        buffers: Tensors,
        weights: Tensors,
        batch: Tensors,
        carry: Tensors,
    ) -> tuple[list[Tensor], Tensors, Tensors, Tensors]:
        """A turn without its update: gradients, means of the terms, their shares, and the carry.

        `current` are parameters as layers take them. Buffers are written to in place: the player's
        own, and copies of the others'.
        """
        player = self.updates[turn]
        leaves = self._leaves(self.names[player], current)
        shared = (self._others(player, current, buffers), weights, batch, carry)
        play = vmap(self._player(turn)) if self.vectorised else self._player(turn)
        gradients: list[Tensor] = []
        results: list[list[Tensors]] = []
        for own, inputs in zip(leaves, self._inputs(shared), strict=True):
            with half_precision(self.device, self.precision):
                loss, *told = play(own, *inputs)
            found = torch.autograd.grad(loss.sum(), list(own.values()))
            gradients += map(alike, found, own.values())
            results.append([_detached(tensors) for tensors in told])
        means, shares, left = (self._gather(list(lanes)) for lanes in zip(*results, strict=True))
        return gradients, means, shares, left

    def _batch(self, index: Tensor) -> Tensors:
        """What every lane sees in a turn: observations (L, B, ...), what labels say of them, seeds.

        index: (L, B).
        """
        told = self.teacher.targets(index)
        own = {"seed": self.seeds, "step": self.clock}
        return {"x": self.sampler.images(index), **own, **told}

    def _inputs(self, shared: tuple[Tensors, ...]) -> list[tuple[Tensors, ...]]:
        """What goes into the loss beside the leaves: for all lanes at once, or lane by lane."""
        if self.vectorised:
            return [shared]
        return [
            tuple({name: value[lane] for name, value in tensors.items()} for tensors in shared)
            for lane in range(len(self.runs))
        ]

    def _gather(self, lanes: list[Tensors]) -> Tensors:
        """Results of all lanes, (L, ...) each."""
        if self.vectorised:
            return lanes[0]
        return {name: torch.stack([lane[name] for lane in lanes]) for name in lanes[0]}

    def _player(self, index: int) -> Callable[..., Played]:
        """The loss of one turn as a function of one lane's parameters, weights and batch."""
        objective, labels = self.runs[0].objective, self.runs[0].labels
        size = self.dataset.size

        def play(
            own: Tensors, others: Tensors, weights: Tensors, batch: Tensors, carry: Tensors
        ) -> Played:
            turn = with_labels(_bind(objective, weights).updates[index], labels, weights)
            noise = Noise(batch["seed"], batch["step"], f"turn{index}", self.device)
            terms, left = functional_call(
                self.nets,
                {**own, **others},
                (turn.loss, Batch(batch["x"], size, batch), noise, carry),
            )
            return *reduce_terms(terms), dict(left)

        return play

    def _others(self, player: str, current: Tensors, buffers: Tensors) -> Tensors:
        """Parameters of the other players, and the buffers of all.

        They take no part in differentiation, so no gradient reaches a player who is not moving.
        """
        others = [names for owner, names in self.names.items() if owner != player]
        held = {name: current[name] for names in others for name in names}
        return held | {
            name: value if self.nets.player_of(name) == player else value.clone()
            for name, value in buffers.items()
        }

    def _leaves(self, names: list[str], current: Tensors) -> list[Tensors]:
        """The player's parameters as leaves of differentiation: stacked, or one dict a lane."""
        if self.vectorised:
            return [{name: current[name].detach().requires_grad_() for name in names}]
        return [
            {name: current[name][lane].detach().requires_grad_() for name in names}
            for lane in range(len(self.runs))
        ]

    def _update(self, turn: int, gradients: list[Tensor]) -> None:
        """A step of the optimiser of the player whose turn it is, for all lanes."""
        player = self.updates[turn]
        flat = self.flat_parameters[player]
        # Every turn of a player is one step of its optimiser.
        updates, before = self.updates.count(player), self.updates[:turn].count(player)
        parameters = self._slices(self.parameters, self.names[player])
        if kernels.take(flat.flat):
            # Gradients are read as memory; a compiled turn may have laid them out in its own way.
            flat.sweep(list(map(alike, gradients, parameters)), self.clock, updates, before)
            return
        moments = {
            moment: self._slices(self.moments[moment], self.names[player])
            for moment in flat.optimiser.moments
        }
        count = self.clock[0] * updates + before
        counts = list(count.float().expand(len(parameters)).clone().unbind())
        matched = [g.to(p.dtype) for g, p in zip(gradients, parameters, strict=True)]
        flat.optimiser.update(parameters, matched, moments, counts)
        flat.refresh()

    def _slices(self, tensors: Tensors, names: list[str]) -> list[Tensor]:
        if self.vectorised:
            return [tensors[name] for name in names]
        return [tensors[name][lane] for lane in range(len(self.runs)) for name in names]

    def state(self, lane: int) -> Tensors:
        """All tensors of one lane, as "parameters/name", "buffers/name" and "moment/name"."""
        return {
            f"{kind}/{name}": value[lane]
            for kind, tensors in self._tensors.items()
            for name, value in tensors.items()
        }

    @property
    def _tensors(self) -> dict[str, Tensors]:
        """All tensors of the state by kind and name."""
        return {"parameters": self.parameters, "buffers": self.buffers, **self.moments}

    def restore(self, states: list[Tensors], step: int) -> None:
        """Set the state from one dict a lane, as `state` gave them."""
        for lane, tensors in enumerate(states):
            expected = self.state(lane)
            wrong = expected.keys() ^ tensors.keys()
            if wrong:
                raise ValueError(
                    f"expected a checkpoint of run {self.runs[lane].digest}, got one in which "
                    f"{sorted(wrong)[0]!r} is missing or unknown; delete the run's folder"
                )
            for name, value in expected.items():
                value.copy_(tensors[name])
        self._refresh()
        self.seek(step)

    def seek(self, step: int) -> None:
        """Go on at a step."""
        self.step = step
        self.clock.fill_(step)

    def keep(self, lanes: list[int]) -> None:
        """Go on with these lanes only."""
        self.runs = [self.runs[lane] for lane in lanes]
        if not self.runs:
            return
        index = torch.tensor(lanes, device=self.device)
        kept = {
            kind: {name: value[index] for name, value in tensors.items()}
            for kind, tensors in self._tensors.items()
        }
        self._hold(kept["parameters"])
        self.buffers = {name: shared(value) for name, value in kept["buffers"].items()}
        for moment, tensors in self.moments.items():
            for name, value in tensors.items():
                value.copy_(kept[moment][name])
        self._refresh()
        self._arrange()

    def finite(self) -> list[bool]:
        """Whether the whole state of each lane is finite."""
        good = torch.ones(len(self.runs), dtype=torch.bool, device=self.device)
        for tensors in self._tensors.values():
            for value in tensors.values():
                good &= value.reshape(len(value), -1).isfinite().all(1)
        return [bool(g) for g in good.tolist()]


class _Operations(TorchDispatchMode):
    """Counts the operations of matrix products and convolutions.

    torch's own counter watches modules too, which a gradient inside a loss does not bear.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        from torch.utils.flop_counter import flop_registry  # loads Triton, for half a second

        out = func(*args, **(kwargs or {}))
        if formula := flop_registry.get(func._overloadpacket):
            self.count += formula(*args, **(kwargs or {}), out_val=out)
        return out


def trained(state: Tensors) -> Tensors:
    """What a trained run consists of, parameters and buffers by name, out of a lane's state."""
    kinds = {"parameters", "buffers"}
    split = {name: name.split("/", 1) for name in state}
    return {name: state[key] for key, (kind, name) in split.items() if kind in kinds}


def _detached(tensors: Tensors) -> Tensors:
    return {name: value.detach() for name, value in tensors.items()}


def vectorises(nets: nn.Module, device: torch.device) -> bool:
    """Whether stacked lanes run faster than one after the other.

    On the CPU a grouped convolution is slower than the same convolutions one by one.
    """
    convolutions = (nn.Conv2d, nn.ConvTranspose2d)
    if any(isinstance(m, UserModule) and not m.vectorises for m in nets.modules()):
        return False
    return device.type != "cpu" or not any(isinstance(m, convolutions) for m in nets.modules())


def _bind(objective: BaseObjective, weights: Mapping[str, Tensor]) -> BaseObjective:
    """The objective with the numbers of this step and lane in place of its weights."""
    bound = copy.copy(objective)
    for name in lane_fields(type(objective)):
        object.__setattr__(bound, name, weights[name])
    return bound


def _linear(nets: nn.Module) -> list[str]:
    """The names of the parameters of linear layers."""
    found = [(name, m) for name, m in nets.named_modules() if isinstance(m, nn.Linear)]
    return [f"{name}.{part}" for name, m in found for part, _ in m.named_parameters()]
