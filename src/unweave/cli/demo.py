"""`unweave demo`: a dataset small enough to learn in minutes on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unweave.cli.options import StoreOption
from unweave.core.console import err, out
from unweave.core.notes import print_notes

if TYPE_CHECKING:
    from unweave.training.run import Run


def demo_command(
    store: StoreOption = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run.")] = 0,
) -> None:
    """Learn a small dataset in minutes, score the result, and write its report and explorer.

    Example:

      unweave demo --seed 1
    """
    from unweave.cli.explore import write_explorer
    from unweave.cli.score_output import print_scores
    from unweave.cli.scoring import score_runs
    from unweave.cli.train import use_threads
    from unweave.evaluation.fit import train_runs
    from unweave.evaluation.loading import load
    from unweave.report import write_report
    from unweave.training import pick_device
    from unweave.training.own_data import Datasets
    from unweave.training.progress import ConsoleProgress
    from unweave.training.store import Store

    use_threads()
    run_store, datasets = Store(store), Datasets(pick_device("cpu"))
    (outcome,) = train_runs([demo_run(seed)], datasets, run_store, ConsoleProgress(err), err)
    folder = run_store.folder(outcome.run).path
    model = load(folder, device="cpu")
    scored = score_runs([model], 10_000)
    print_scores(scored.scores, "table")
    if scored.disk_errors:
        raise scored.disk_errors[0]
    (own,) = scored.scores.values()
    beside = write_explorer(model)
    link = beside.name if beside else ""
    path = write_report(model, folder / "report.html", rows=10_000, scores=own, explorer=link)
    print_notes(out, [f"report: {path}"])
    if beside:
        print_notes(out, [f"explorer: {beside} (open it in a browser, and move the sliders)"])


def demo_run(seed: int) -> Run:
    """Return a beta-VAE on an ellipse in six sizes at 32 x 32 positions, 32 x 32 pixels.

    Beta falls from 50, where every latent variable is unused, to 4. The variables become active one
    after the other, the most useful first, while the posteriors still overlap widely; so the map
    from images to codes does not fold, which it does in most seeds when beta starts low.
    """
    from unweave.core.optimisers import Adam
    from unweave.core.schedules import Linear
    from unweave.data import Shapes2D
    from unweave.latents import Gaussian
    from unweave.likelihoods import Bernoulli
    from unweave.networks import Conv
    from unweave.objectives import BetaVAE
    from unweave.training.run import Run

    return Run(
        data=Shapes2D(side=32, shapes=("ellipse",), orientations=1),
        latent=Gaussian(6),
        network=Conv(base=16, hidden=128),
        likelihood=Bernoulli(),
        objective=BetaVAE(beta=Linear(50.0, 4.0, steps=5_000)),
        optimiser=Adam(lr=1e-3),
        steps=7_000,
        seed=seed,
    )
