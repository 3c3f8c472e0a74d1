"""One training step of runs side by side: batches, losses, gradients and optimiser updates."""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from unweave import kernels
from unweave.core.noise import Noise
from unweave.core.spec import lane_fields
from unweave.data import Dataset
from unweave.networks import UserModule, frozen_statistics
from unweave.objectives import Batch, LabelTargets, reduce_terms, with_labels
from unweave.objectives.base import MODEL, BaseObjective, check_players, checked
from unweave.training.compile import compile_if
from unweave.training.flat_parameters import Tensors, like_parameter
from unweave.training.precision import Precision, half_precision, matmul_precision
from unweave.training.processes import ALONE, Processes
from unweave.training.run import Run
from unweave.training.sampler import Sampler
from unweave.training.state import check_tensors, initial_state
from unweave.training.weights import WeightTable

LOSS = "loss"  # name in the log of the model's loss, the weighted sum of its terms

_ABOUT_VMAP = (
    "Runs train side by side under torch.func.vmap. A loss, network or latent block must not read "
    "values back: use torch.where instead of `if`, no .item() and no boolean masks; and it must "
    "draw with noise.normal and noise.uniform, not with torch's own random numbers."
)

# Of one update: the loss, the mean of each term, its share of the loss, and the carry.
Losses = tuple[Tensor, Tensors, Tensors, Tensors]


class Lanes:
    """L runs that differ only in seed and objective weights, trained side by side as one program.

    A step makes the updates of the objective in order. Each update draws a batch, computes the
    loss of one player and moves that player's parameters with its optimiser.

    A step reads its number (`clock`), its weights and its batch from tensors on the device and
    writes to the state in place, so it can be recorded once and replayed (see `engine.py`).
    `prepare` fills these tensors for many steps at a time.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        dataset: Dataset,
        device: torch.device,
        precision: Precision = "fp32",
        compiles: bool = False,
        processes: Processes = ALONE,
    ) -> None:
        self.runs, self.dataset, self.device, self.precision = runs, dataset, device, precision
        on_gpu = device.type == "cuda"
        self.processes = processes
        self.compiles = compiles and on_gpu
        self.nets = runs[0].build(dataset.shape).to(device)
        check_players(runs[0].objective.updates, self.nets)
        processes.check_networks(self.nets)
        self.players = [update.player for update in runs[0].objective.updates]
        self.teacher = LabelTargets(runs[0].labels, runs[0].latent, dataset)
        half = on_gpu and precision == "bf16"
        self.state = initial_state(runs, self.nets, dataset.shape, device, half)
        self.step = 0
        self._set_up()

    def _set_up(self) -> None:
        """Create what follows from the runs: weights, seeds, batches, and how lanes are mapped."""
        self.clock = torch.full((len(self.runs),), self.step, device=self.device)
        self.seeds = torch.tensor([run.seed for run in self.runs], device=self.device)
        self.weights = WeightTable(self.runs, self.device)
        self.sampler = Sampler(self.seeds, self.dataset, self.runs[0].batch_size, len(self.players))
        self.vectorised = len(self.runs) > 1 and can_vectorise(self.nets, self.device)
        self._read = compile_if(self.compiles, self.read)
        self._gradients = [
            compile_if(self.compiles, partial(self._compute_gradients, update))
            for update in range(len(self.players))
        ]

    # ---- which lanes, at which step

    def slice(self, start: int, stop: int) -> Self:
        """Return some of the lanes, which share the state with these: for a worker process.

        Modules are copied because a call puts the parameters of a lane into them.
        """
        lanes = copy.copy(self)
        tensors = [*self.nets.parameters(), *self.nets.buffers()]
        lanes.nets = copy.deepcopy(self.nets, {id(tensor): tensor for tensor in tensors})
        lanes.runs, lanes.state = self.runs[start:stop], self.state.slice(start, stop)
        lanes._set_up()
        return lanes

    def restore(self, saved: Sequence[Tensors], step: int) -> None:
        """Continue at a step from the tensors of each lane, as `LaneState.lane` returned them."""
        for lane, tensors in enumerate(saved):
            check_tensors(
                f"the checkpoint of run {self.runs[lane].digest}", tensors, self.state.lane(lane)
            )
            self.state.restore(lane, tensors)
        self.seek(step)

    def seek(self, step: int) -> None:
        """Make this the next step."""
        self.step = step
        self.clock.fill_(step)

    # ---- a step

    def prepare(self) -> int:
        """Get ready for the next step; return how many steps can be taken before the next call."""
        self.sampler.seek(self.step)
        self.weights.seek(self.step)
        return min(self.weights.steps_left(self.step), self.sampler.steps_left(self.step))

    def advance(self) -> tuple[Tensors, Tensors]:
        """Take one step; return the mean of each term and its share of the loss, (L,) each."""
        self.prepare()
        terms = self.compute_step()
        self.step += 1
        return terms

    def compute_step(self) -> tuple[Tensors, Tensors]:
        """Compute a step on the device, as `advance` does, without the host's bookkeeping.

        If several updates report the same term, the last one counts.
        """
        weights, rows = self._read(self.clock, self.weights.values, self.sampler.orders)
        means: Tensors = {}
        shares: Tensors = {}
        carry: Tensors = {}
        for update, seen in enumerate(rows):
            own_means, own_shares, carry = self.make_update(update, weights, seen, carry)
            means |= own_means
            shares |= own_shares
        self.clock += 1
        return means, shares

    def read(self, clock: Tensor, weights: Tensor, orders: Tensor) -> tuple[Tensors, Tensor]:
        """Return the weights (L,) of this step, and the rows (U, L, B) that its updates see."""
        return self.weights.read(clock, weights), self.sampler.indices(clock[0], orders)

    def make_update(
        self, update: int, weights: Tensors, rows: Tensor, carry: Tensors
    ) -> tuple[Tensors, Tensors, Tensors]:
        """Move one player on a batch; return means and shares of its terms, and the carry."""
        parameters = self.state.parameters | self.state.half_copies
        with self.processes.divided_rows():
            gradients, means, shares, carry = self._gradients[update](
                parameters, self.state.buffers, weights, self._batch(rows, self.processes), carry
            )
        self._optimise(update, self.processes.mean(gradients))
        return means, shares, carry

    def _batch(self, rows: Tensor, processes: Processes = ALONE) -> Tensors:
        """Return observations (L, B, ...), label targets, seeds and steps for rows (L, B).

        Each of the processes reads its part of the observations.
        """
        x = processes.gather_rows(self.sampler.images(processes.own_rows(rows)))
        return {"x": x, "seed": self.seeds, "step": self.clock, **self.teacher.targets(rows)}

    def _compute_gradients(
        self,
        update: int,
        parameters: Tensors,
        buffers: Tensors,
        weights: Tensors,
        batch: Tensors,
        carry: Tensors,
    ) -> tuple[list[Tensor], Tensors, Tensors, Tensors]:
        """Compute gradients, means of the terms, their shares of the loss, and the carry.

        Running statistics of the player's own networks are updated in place.
        """
        player = self.players[update]
        loss_function = self._mapped_loss(update)
        own = {name: parameters[name] for name in self.state.names[player]}
        others = self._others(player, parameters, buffers)
        gradients: list[Tensor] = []
        results: list[list[Tensors]] = []
        for own_lane, *inputs in self._calls(own, others, weights, batch, carry):
            leaves = {name: value.detach().requires_grad_() for name, value in own_lane.items()}
            with half_precision(self.device, self.precision):
                loss, *terms = loss_function(leaves, *inputs)
            by_leaf = torch.autograd.grad(loss.sum(), list(leaves.values()))
            gradients += map(like_parameter, by_leaf, leaves.values())
            results.append([{n: v.detach() for n, v in tensors.items()} for tensors in terms])
        means, shares, carry = (self._stack(lanes) for lanes in zip(*results, strict=True))
        return gradients, means, shares, carry

    def _optimise(self, update: int, gradients: list[Tensor]) -> None:
        """Take an optimiser step of the player whose update this is, in all lanes."""
        player, state = self.players[update], self.state
        flat, names = state.flat_parameters[player], state.names[player]
        # Each of the player's updates within a step is a step of its optimiser.
        updates, before = self.players.count(player), self.players[:update].count(player)

        def split(tensors: Tensors) -> list[Tensor]:
            calls = self._calls({name: tensors[name] for name in names})
            return [value for (call,) in calls for value in call.values()]

        parameters = split(state.parameters)
        if kernels.supports(flat.flat):
            # The kernel reads raw memory; a compiled update may lay gradients out in its own way.
            flat.adam_step(
                list(map(like_parameter, gradients, parameters)), self.clock, updates, before
            )
            return
        moments = {moment: split(state.moments[moment]) for moment in flat.optimiser.moments}
        count = self.clock[0] * updates + before
        counts = list(count.float().expand(len(parameters)).clone().unbind())
        matched = [g.to(p.dtype) for g, p in zip(gradients, parameters, strict=True)]
        flat.optimiser.update(parameters, matched, moments, counts)
        flat.refresh()

    # ---- losses, and how they are mapped over lanes

    def loss_function(self, update: int) -> Callable[..., Losses]:
        """Return the loss of one update as a function of the tensors of one lane."""
        objective, labels = self.runs[0].objective, self.runs[0].labels
        size = self.dataset.size

        def compute(
            own: Tensors, others: Tensors, weights: Tensors, batch: Tensors, carry: Tensors
        ) -> Losses:
            own_update = checked(_bind(objective, weights).updates[update])
            bound = with_labels(own_update, labels, weights)
            noise = Noise(batch["seed"], batch["step"], f"turn{update}", self.device)
            terms, carry_on = functional_call(
                self.nets,
                {**own, **others},
                (bound.loss, Batch(batch["x"], size, batch), noise, carry),
            )
            loss, means, shares = reduce_terms(terms)
            if self.players[update] == MODEL:
                means, shares = means | {LOSS: loss}, shares | {LOSS: loss}
            return loss, means, shares, dict(carry_on)

        return compute

    def _mapped_loss(self, update: int) -> Callable[..., Losses]:
        loss = self.loss_function(update)
        return _explained(vmap(loss)) if self.vectorised else loss

    def _calls(self, *arguments: Tensors) -> list[tuple[Tensors, ...]]:
        """Return the arguments of every call of a loss: one for all lanes, or one for each."""
        if self.vectorised:
            return [arguments]
        return [
            tuple({name: value[lane] for name, value in tensors.items()} for tensors in arguments)
            for lane in range(len(self.runs))
        ]

    def _stack(self, results: Sequence[Tensors]) -> Tensors:
        """Join the results of all calls, (L, ...) each."""
        if self.vectorised:
            return results[0]
        return {name: torch.stack([lane[name] for lane in results]) for name in results[0]}

    def _others(self, player: str, parameters: Tensors, buffers: Tensors) -> Tensors:
        """Return the other players' parameters, and the buffers of all.

        They are constants, so no gradient reaches a player whose update it is not, and only the
        player's own running statistics are updated.
        """
        others = [names for owner, names in self.state.names.items() if owner != player]
        constants = {name: parameters[name] for names in others for name in names}
        return constants | {
            name: value if self.nets.player_of(name) == player else value.clone()
            for name, value in buffers.items()
        }

    # ---- evaluation

    @torch.no_grad()
    def evaluate(self, batches: Tensor) -> Tensors:
        """Return the mean of each term over fixed batches, (L,) each, without changing the state.

        Args:
            batches: (N, B) indices of observations, which all lanes see with the same noise. As in
                training, every update of a step has a batch of its own: step n starts at batch n.
        """
        weights = self.weights.at(self.step)
        parameters = self.state.parameters
        buffers = {name: value.clone() for name, value in self.state.buffers.items()}
        sums: Tensors = {}
        with frozen_statistics(self.nets), matmul_precision("fp32"):
            for step in range(len(batches)):
                carry: Tensors = {}
                means: Tensors = {}  # as in the log, the last update that reports a term counts
                for update, player in enumerate(self.players):
                    rows = batches[(step + update) % len(batches)].expand(len(self.runs), -1)
                    fixed = {"seed": self.seeds * 0, "step": self.seeds * 0 + step}
                    own = {name: parameters[name] for name in self.state.names[player]}
                    others = self._others(player, parameters, buffers)
                    loss_function = self._mapped_loss(update)
                    calls = self._calls(own, others, weights, self._batch(rows) | fixed, carry)
                    results = [loss_function(*call) for call in calls]
                    _, own_means, _, carries = zip(*results, strict=True)
                    means |= self._stack(own_means)
                    carry = self._stack(carries)
                sums = {name: sums.get(name, 0.0) + value for name, value in means.items()}
        return {name: value / len(batches) for name, value in sums.items()}


def can_vectorise(nets: nn.Module, device: torch.device) -> bool:
    """Return whether lanes run stacked under `vmap`, and not one after the other.

    On the CPU a grouped convolution is slower than the same convolutions one by one, and a user's
    module may not work under `vmap`.
    """
    if any(isinstance(m, UserModule) and not m.vectorises for m in nets.modules()):
        return False
    convolutions = (nn.Conv2d, nn.ConvTranspose2d)
    return device.type != "cpu" or not any(isinstance(m, convolutions) for m in nets.modules())


def _explained(mapped: Callable[..., Losses]) -> Callable[..., Losses]:
    """Call a mapped loss, and add to an error of vmap what a loss cannot do."""

    @wraps(mapped)
    def call(*arguments: Tensors) -> Losses:
        try:
            return mapped(*arguments)
        except RuntimeError as error:
            if str(error).startswith("vmap:"):
                error.add_note(_ABOUT_VMAP)
            raise

    return call


def _bind(objective: BaseObjective, weights: Mapping[str, Tensor]) -> BaseObjective:
    """Return the objective with the values of this step and lane in place of its weights."""
    bound = copy.copy(objective)
    for name in lane_fields(type(objective)):
        object.__setattr__(bound, name, weights[name])
    return bound
