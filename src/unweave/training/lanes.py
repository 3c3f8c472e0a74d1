"""Lanes: runs of one structure that train as one program on stacked parameters (L, ...)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from unweave.data import World
from unweave.networks import initialise
from unweave.noise import Noise
from unweave.objectives import MODEL, Batch, Teacher, reckon, with_labels
from unweave.objectives.game import Game
from unweave.run import Run
from unweave.schedules import at
from unweave.spec import lane_fields
from unweave.training.precision import Precision, half_precision
from unweave.training.sampler import Sampler

_AHEAD = 200  # steps whose weights are worked out at once
_MANY = 2**22  # parameters of all lanes that fill a GPU

Tensors = dict[str, Tensor]
Played = tuple[Tensor, Tensors, Tensors, Tensors]  # loss, terms, terms weighted, memo


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
        world: World,
        device: torch.device,
        precision: Precision = "fp32",
    ) -> None:
        run = runs[0]
        self.runs, self.world, self.device, self.precision = runs, world, device, precision
        self.nets = run.build(world.shape).to(device)
        self.optimisers = {MODEL: run.optimiser, **run.objective.optimisers}
        self.turns = [turn.player for turn in run.objective.turns]
        self.teacher = Teacher(run.labels, run.latent, world)
        self.step, self.clock = 0, torch.zeros((), dtype=torch.int64, device=device)
        initial = [initialise(self.nets, Noise(r.seed, 0, "initial", device)) for r in runs]
        self.parameters = {name: _stacked([v[name] for v in initial]) for name in initial[0]}
        self.buffers = {
            name: _stacked([value] * len(runs))
            for name, value in self.nets.state_dict().items()
            if name not in self.parameters
        }
        self.names = {
            player: [name for name in self.parameters if self.nets.player_of(name) == player]
            for player in self.optimisers
        }
        self.linear = _linear(self.nets) if _halves(device, precision) else []
        self.moments: dict[str, Tensors] = {}
        for player, optimiser in self.optimisers.items():
            for moment in optimiser.moments:
                zeros = {n: torch.zeros_like(self.parameters[n]) for n in self.names[player]}
                self.moments.setdefault(moment, {}).update(zeros)
        self._arrange()

    def _arrange(self) -> None:
        """What follows from the runs: weights, seeds, batches, and how lanes are mapped."""
        self.weights = {n: [run.weights[n] for run in self.runs] for n in self.runs[0].weights}
        self.levels = torch.empty((_AHEAD, len(self.weights), len(self.runs)), device=self.device)
        self._ahead = range(0)  # the steps whose weights are in `levels`
        self.seeds = torch.tensor([run.seed for run in self.runs], device=self.device)
        size, batch = self.world.size, self.runs[0].batch_size
        self.sampler = Sampler(self.seeds, size, batch, len(self.turns))
        self.vectorised = len(self.runs) > 1 and self.mappable

    @property
    def mappable(self) -> bool:
        """Whether stacked lanes can run faster than one after the other.

        On the CPU a grouped convolution is slower than the same convolutions one by one.
        """
        convolutions = (nn.Conv2d, nn.ConvTranspose2d)
        convolved = any(isinstance(module, convolutions) for module in self.nets.modules())
        return self.device.type != "cpu" or not convolved

    def part(self, start: int, stop: int) -> Lanes:
        """Some of the lanes on the same state, with all else their own: to run beside the others.

        Modules are copied, since a call puts the parameters of a lane into them.
        """
        part, held = copy.copy(self), slice(start, stop)
        tensors = [*self.nets.parameters(), *self.nets.buffers()]
        part.nets = copy.deepcopy(self.nets, {id(tensor): tensor for tensor in tensors})
        part.runs, part.clock = self.runs[held], self.clock.clone()
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
        values: Tensors = {}
        weighted: Tensors = {}
        memo: Tensors = {}
        for index, player in enumerate(self.turns):
            means, shares, memo = self._turn(index, player, memo)
            values |= means
            weighted |= shares
        self.clock += 1
        return values, weighted

    def _turn(self, index: int, player: str, memo: Tensors) -> tuple[Tensors, ...]:
        names = self.names[player]
        current = self._current()
        leaves = self._leaves(names, current)
        shared = (self._others(player, current), self._weights(), self._batch(index), memo)
        play = vmap(self._player(index)) if self.vectorised else self._player(index)
        gradients: list[Tensor] = []
        results: list[list[Tensors]] = []
        for own, inputs in zip(leaves, self._inputs(shared), strict=True):
            with half_precision(self.device, self.precision):
                loss, *told = play(own, *inputs)
            gradients += torch.autograd.grad(loss.sum(), list(own.values()))
            results.append([_detached(tensors) for tensors in told])
        self._update(index, player, names, gradients)
        return tuple(self._gather(list(lanes)) for lanes in zip(*results, strict=True))

    def _batch(self, turn: int) -> Tensors:
        """What every lane sees in a turn: observations, what labels say of them, and its seed."""
        index = self.sampler.indices(self.clock, turn)
        told = self.teacher.targets(index)
        return {"x": self.world.images(index), "seed": self.seeds, **told}

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
        size, step = self.world.size, self.clock

        def play(
            own: Tensors, others: Tensors, weights: Tensors, batch: Tensors, memo: Tensors
        ) -> Played:
            turn = with_labels(_bind(objective, weights).turns[index], labels, weights)
            noise = Noise(batch["seed"], step, f"turn{index}", self.device)
            terms, left = functional_call(
                self.nets,
                {**own, **others},
                (turn.loss, Batch(batch["x"], size, batch), noise, memo),
            )
            return *reckon(terms), dict(left)

        return play

    def _current(self) -> Tensors:
        """The parameters as layers take them: those of linear ones in half precision, if any."""
        if not self.linear:
            return self.parameters
        halves = [torch.empty_like(self.parameters[n], dtype=torch.bfloat16) for n in self.linear]
        torch._foreach_copy_(halves, [self.parameters[name] for name in self.linear])
        return self.parameters | dict(zip(self.linear, halves, strict=True))

    def _others(self, player: str, current: Tensors) -> Tensors:
        """Parameters of the other players, and the buffers of all.

        They take no part in differentiation, so no gradient reaches a player who is not moving.
        Buffers are written to in place: the player's own, and copies of the others'.
        """
        others = [names for owner, names in self.names.items() if owner != player]
        held = {name: current[name] for names in others for name in names}
        return held | {
            name: value if self.nets.player_of(name) == player else value.clone()
            for name, value in self.buffers.items()
        }

    def _leaves(self, names: list[str], current: Tensors) -> list[Tensors]:
        """The player's parameters as leaves of differentiation: stacked, or one dict a lane."""
        if self.vectorised:
            return [{name: current[name].detach().requires_grad_() for name in names}]
        return [
            {name: current[name][lane].detach().requires_grad_() for name in names}
            for lane in range(len(self.runs))
        ]

    def _update(
        self,
        index: int,
        player: str,
        names: list[str],
        gradients: list[Tensor],
    ) -> None:
        parameters = self._slices(self.parameters, names)
        moments = {
            moment: self._slices(self.moments[moment], names)
            for moment in self.optimisers[player].moments
        }
        matched = _matched(gradients, parameters)
        if self.device.type == "cuda" and sum(p.numel() for p in parameters) < _MANY:
            parameters, matched = _pieces(parameters), _pieces(matched)
            moments = {moment: _pieces(tensors) for moment, tensors in moments.items()}
        # Every turn of a player is one step of its optimiser.
        count = self.clock * self.turns.count(player) + self.turns[:index].count(player)
        counts = list(count.float().expand(len(parameters)).clone().unbind())
        self.optimisers[player].update(parameters, matched, moments, counts)

    def _slices(self, tensors: Tensors, names: list[str]) -> list[Tensor]:
        if self.vectorised:
            return [tensors[name] for name in names]
        return [tensors[name][lane] for lane in range(len(self.runs)) for name in names]

    def _weights(self) -> Tensors:
        """The value of every weight of objective and labels at this step, (L,) each."""
        now = self.levels.index_select(0, (self.clock % _AHEAD).reshape(1))[0]
        return dict(zip(self.weights, now, strict=True))

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
        for tensors in self._tensors.values():
            for name, value in tensors.items():
                kept = _laid_out(value.shape[1:], len(lanes), value)
                tensors[name] = kept.copy_(value[index])
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


def _bind(objective: Game, weights: Mapping[str, Tensor]) -> Game:
    """The objective with the numbers of this step and lane in place of its weights."""
    bound = copy.copy(objective)
    for name in lane_fields(type(objective)):
        object.__setattr__(bound, name, weights[name])
    return bound


def _laid_out(shape: torch.Size, lanes: int, like: Tensor) -> Tensor:
    """An empty (L, *shape) whose convolution kernels have their input channels innermost."""
    if len(shape) != 4:
        return like.new_empty((lanes, *shape))
    first, second, *kernel = shape
    return like.new_empty((lanes, first, *kernel, second)).permute(0, 1, 4, 2, 3)


def _stacked(values: list[Tensor]) -> Tensor:
    return _laid_out(values[0].shape, len(values), values[0]).copy_(torch.stack(values))


def _matched(gradients: list[Tensor], parameters: list[Tensor]) -> list[Tensor]:
    """Gradients in the type and layout of the parameters, as fused optimisers take for granted."""
    pairs = list(zip(gradients, parameters, strict=True))
    other = [i for i, (g, p) in enumerate(pairs) if g.stride() != p.stride() or g.dtype != p.dtype]
    matched = list(gradients)
    if other:
        found = [torch.empty_like(parameters[i]) for i in other]
        torch._foreach_copy_(found, [gradients[i] for i in other])
        for i, gradient in zip(other, found, strict=True):
            matched[i] = gradient
    return matched


def _pieces(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors as flat pieces, in the order of memory, for fused optimisers.

    These give 65,536 numbers of a tensor to a block of threads: a single run has too few of them to
    fill a GPU.
    """
    return [part for t in tensors for part in t.as_strided((t.numel(),), (1,)).split(2**12)]


def _halves(device: torch.device, precision: Precision) -> bool:
    return device.type == "cuda" and precision == "bf16"


def _linear(nets: nn.Module) -> list[str]:
    """The names of the parameters of linear layers."""
    found = [(name, m) for name, m in nets.named_modules() if isinstance(m, nn.Linear)]
    return [f"{name}.{part}" for name, m in found for part, _ in m.named_parameters()]
