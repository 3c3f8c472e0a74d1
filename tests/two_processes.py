"""What two processes compute together for `test_data_parallel.py`, and one process alone."""

import dataclasses
import json
import math
import os
import sys
import traceback
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import unweave as uw
from datasets import (
    ADVERSARIAL,
    CPU,
    CROSS,
    DATASET,
    LATENTS,
    LIKELIHOODS,
    OBJECTIVES,
    nets_and_batch,
    small_run,
)
from stopping import Late
from unweave.core.noise import Noise
from unweave.core.row_division import mean_of_processes
from unweave.networks.layers import BatchNorm
from unweave.objectives import reduce_terms
from unweave.training import Lanes, notes, train
from unweave.training.processes import ALONE, Processes
from unweave.training.store import Store

NORMALISED = uw.DCGAN(base=4)
# With `eps` this large, a parameter moves in proportion to its gradient, however small that is.
OPTIMISER = uw.Adam(lr=0.01, eps=1.0)
PARTICLES = uw.LagrangianVAE(information=0.5, likelihood=0.4, particles=4)


def encoder():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 8), BatchNorm(8), nn.ReLU(), nn.Linear(8, 6))


def decoder():
    return nn.Sequential(nn.Linear(3, 256), nn.Unflatten(1, (1, 16, 16)))


def torch_normalised():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 8), nn.BatchNorm1d(8), nn.Linear(8, 6))


# Fields of runs whose gradients are compared, in float64.
GRADIENTS = [
    *({"objective": objective, "latent": latent} for objective, latent in CROSS),
    *({"objective": objective, "network": None} for objective in ADVERSARIAL),
    *({"likelihood": likelihood} for likelihood in LIKELIHOODS),
    *({"objective": OBJECTIVES[n], "network": NORMALISED} for n in (1, 4, 5, -1)),
    # Samples of a prior, learned or not, that the decoder divides.
    *({"objective": PARTICLES, "latent": latent} for latent in (LATENTS[0], *LATENTS[2:4])),
    {"objective": PARTICLES, "latent": uw.VampPrior(3, components=4)},
    {"network": uw.Modules(encoder, decoder)},
]
# Fields of runs that are trained for a few steps.
TRAINED = [
    *({"objective": objective} for objective in OBJECTIVES),
    {"latent": uw.VampPrior(3, components=4), "network": NORMALISED},
    {"latent": uw.Categorical(2), "labels": (uw.Label("shape", share=0.5),)},
]


def gradients(fields, processes):
    """Compute terms, gradients and statistics of all updates of a step, in float64."""
    run = small_run(**fields)
    nets, batch = nets_and_batch(run)
    found, carry = {}, {}
    for number, update in enumerate(run.objective.updates):
        with processes.divided_rows():
            terms, carry = update.loss(nets, batch, Noise(3, 1), carry)
            loss, means, _ = reduce_terms(terms)
            own = {n: p for n, p in nets.named_parameters() if nets.player_of(n) == update.player}
            by_parameter = torch.autograd.grad(loss, list(own.values()), materialize_grads=True)
        flat = torch.cat([value.flatten() for value in by_parameter])
        mean = mean_of_processes(flat) if processes.several else flat  # one message for all
        for name, value in zip(own, mean.split([p.numel() for p in own.values()]), strict=True):
            found[f"{number} gradient of {name}"] = value
        found |= {f"{number} {name}": value.detach() for name, value in means.items()}
    return found | {name: value.clone() for name, value in nets.named_buffers()}


def observed(likelihood, processes):
    """Compute all that p(x|z) offers for codes that are decoded together, in float64."""
    nets, batch = nets_and_batch(small_run(likelihood=likelihood))
    with processes.divided_rows(), torch.no_grad():
        px = nets.model.decode(Noise(0).normal((len(batch.x), 3), "z", torch.float64))
        # The only observation beside all codes, for which the rows of both differ.
        one = [] if likelihood.kind == "bernoulli" else [px.log_prob(batch.x[:1])]
        own = [getattr(px, name) for name in ("logits", "log_mean") if hasattr(px, name)]
        results = [px.mean, px.sample(Noise(1)), px.log_prob(batch.x), *one, *own]
    return {str(place): value for place, value in enumerate(results)}


def trained(fields, processes):
    """Train two steps; return the state and the last terms."""
    dataset = fields["data"].load(CPU) if "data" in fields else DATASET
    run = small_run(**({"optimiser": OPTIMISER} | fields)).resolve(dataset)
    lanes = Lanes([run], dataset, CPU, processes=processes)
    for _ in range(2):
        terms, _ = lanes.advance()
    return {**terms, **lanes.state.lane(0)}


def difference(found, expected, rtol, atol):
    """Return how tensors differ, or ""."""
    try:
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
    except AssertionError as error:
        return str(error)
    return ""


def compare(function, cases, rtol, atol):
    """Return for each case how the results of two processes differ from those of one.

    Both processes compare every second case, and are compared with each other in all of them.
    """
    processes, found = Processes(CPU), []
    for number, case in enumerate(cases):
        together = function(case, processes)
        sums = torch.stack([value.double().sum() for value in together.values()])
        first = sums.clone()
        dist.broadcast(first, 0)
        why = "" if torch.equal(sums, first) else "the processes have different results"
        if number % 2 == dist.get_rank():
            why = why or difference(together, function(case, ALONE), rtol, atol)
        found.append(why)
    return found


def divided_work():
    """Return how many rows the networks and the dataset see in a step of a batch of 16."""
    run = small_run(objective=OBJECTIVES[4])
    lanes = Lanes([run.resolve(DATASET)], DATASET, CPU, processes=Processes(CPU))
    seen, images = defaultdict(set), lanes.sampler.images

    def note(name, rows):
        seen[name].add(rows)

    model, (critic,) = lanes.nets.model, lanes.nets.critics.values()
    networks = {"encoder": model.encoder, "decoder": model.decoder, "critic": critic}
    for name, network in networks.items():
        network.register_forward_pre_hook(lambda _, x, name=name: note(name, len(x[0])))
    lanes.sampler.images = lambda rows: (note("dataset", rows.numel()), images(rows))[1]
    lanes.advance()
    return {name: sorted(rows) for name, rows in seen.items()}


def streamed(folder):
    """Write data that are read in windows; return fields of a run of them."""
    path = folder / f"images{dist.get_rank()}.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (64, 8, 8), dtype=np.uint8))
    return {"data": uw.data.Arrays(path, stream=True)}


def refusal(run, processes):
    """Return why a run is refused."""
    try:
        train([run], DATASET, processes=processes)
    except ValueError as error:
        return str(error)
    return ""


def stored(folder):
    """Train with a store: a deadline of one process, resuming, a failure, several runs."""
    processes, store, report = Processes(CPU), Store(folder / "store"), {}
    run = small_run(steps=20, optimiser=OPTIMISER).resolve(DATASET)
    # The deadline of the second process alone ends both, before the last step.
    clock, late = [0.0], math.inf if processes.is_first else 1.0
    with patch("unweave.training.interrupt.time", SimpleNamespace(monotonic=lambda: clock[0])):
        given = {"progress": Late(clock, 10), "deadline": late, "processes": processes}
        (stopped,) = train([run], DATASET, store, **given)
    report["stopped early"] = stopped.weights is None and stopped.log[-1]["step"] == 10
    (outcome,) = train([run], DATASET, store, processes=processes)
    (alone,) = train([run], DATASET)
    report["resumed"] = difference(outcome.weights, alone.weights, 1e-4, 1e-6)
    report["logged"] = [row["step"] for row in outcome.log] if processes.is_first else None
    (again,) = train([run], DATASET, store, processes=processes)
    report["recalled"] = again.weights is not None
    broken = small_run(objective=uw.BetaVAE(beta=1e39), steps=20)
    others = [dataclasses.replace(run, seed=seed) for seed in (1, 2)]
    runs = [run.resolve(DATASET) for run in (broken, *others)]
    outcomes = train(runs, DATASET, store, processes=processes)
    report["failures"] = [each.failure for each in outcomes]
    report["trained"] = [each.weights is not None for each in outcomes]
    longer = dataclasses.replace(run, steps=30)  # without other processes
    report["notes"] = notes([longer], DATASET, store)
    own = uw.Modules(torch_normalised, decoder)
    for fields in ({"batch_size": 15}, {"network": own}):
        report[f"refusal of {next(iter(fields))}"] = refusal(small_run(**fields), processes)
    return report


def main(rank, folder):
    """Do everything in one of two processes, and write the results to a file."""
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    try:
        results = {
            "gradients": compare(gradients, GRADIENTS, rtol=1e-7, atol=1e-9),
            "observed": compare(observed, LIKELIHOODS, rtol=1e-9, atol=1e-9),
            "trained": compare(trained, [*TRAINED, streamed(folder)], rtol=1e-3, atol=1e-5),
            "work": divided_work(),
            "stored": stored(folder),
        }
    except BaseException:
        results = {"error": traceback.format_exc()}
    (folder / f"results{rank}").write_text(json.dumps(results))
    os._exit(0)  # the other process may wait for this one, if there was an error


if __name__ == "__main__":
    for rank in (0, 1):  # after the imports, which take longest
        if not os.fork():
            main(rank, Path(sys.argv[1]))
    for _ in (0, 1):
        os.wait()
