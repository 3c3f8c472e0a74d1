"""`unweave reproduce` on the command line."""

import math
import time
from pathlib import Path
from typing import Annotated

import typer

from unweave.cli.options import (
    CheckpointSecondsOption,
    DeviceOption,
    LanesOption,
    OnOption,
    RetryFailedOption,
    StoreOption,
)
from unweave.core.console import PAPERS, err as errors, out as printed
from unweave.core.outputs import DEFAULT_STORE, check_matplotlib
from unweave.core.parallel import usable_cores

_IN_A_CLONE = Path("docs/papers")


def reproduce_command(
    paper: Annotated[
        str | None, typer.Argument(help="A paper (by default list all figures).")
    ] = None,
    figures: Annotated[
        list[str] | None, typer.Argument(help="Its figures (by default all).")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for pages, figures and results (by default docs/papers in a clone of the "
            "repository, and papers elsewhere).",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="File of images (.npy, .npz, HDF5) to train on in place of the paper's dataset.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = "auto",
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0, help="Stop training after this many minutes; 0 only draws stored results."
        ),
    ] = None,
    networks: Annotated[
        int | None, typer.Option(min=0, help="Train at most this many networks.")
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="Add the results in a file from another machine (repeatable)."),
    ] = None,
    train_only: Annotated[
        bool, typer.Option("--train-only", help="Train and store the results; draw nothing.")
    ] = False,
    pages_only: Annotated[
        bool,
        typer.Option("--pages-only", help="Only rewrite the pages, from stored results."),
    ] = False,
    on: OnOption = "local",
    lanes: LanesOption = None,
    checkpoint_seconds: CheckpointSecondsOption = 30.0,
    retry_failed: RetryFailedOption = False,
) -> None:
    r"""Reproduce figures of the papers and check their claims; without a paper, list the figures.

    The command trains missing networks, draws the figures, and writes the page of the paper and the
    index of all papers. If interrupted, the same command continues from the last checkpoint. All
    results of a study are stored in one file next to the page, so a large study can be trained in
    slices and on several machines.

    Drawing needs matplotlib (pip install 'unweave\[papers]'); --train-only does not.

    Examples:

      unweave reproduce

      unweave reproduce sikka2019 fig1

      unweave reproduce mathieu2019 fig5 fig6

      unweave reproduce kim2018 fig4 --minutes 25     (a slice of a large study)

      unweave reproduce kim2018 fig4 --merge other/shapes2d.jsonl --minutes 0

      unweave reproduce kim2018 fig15 --data my_faces.npz     (your images in place of CelebA)

      unweave reproduce --pages-only
    """
    if paper is not None and not (pages_only or train_only):
        check_matplotlib()  # before slow imports

    import torch

    from unweave import papers
    from unweave.executors import executor_from
    from unweave.training import pick_device
    from unweave.training.progress import ConsoleProgress
    from unweave.training.store import Store

    if out is None:
        out = _IN_A_CLONE if (_IN_A_CLONE / "README.md").exists() else PAPERS
    if pages_only:
        if figures:
            raise ValueError("--pages-only rewrites the whole page of a paper: name no figures")
        chosen = papers.chosen(paper) if paper else papers.FIGURES
        for path in papers.write_pages(
            list(dict.fromkeys(reproduction.paper for reproduction in chosen)), out
        ):
            printed.print(f"page: {path}", soft_wrap=True)
        return
    if paper is None:
        listed = [
            [f"{each.paper} {each.figure}", each.cost, papers.state(each, out)]
            for each in papers.FIGURES
        ]
        titles = [each.title for each in papers.FIGURES]
        printed.print_table(["figure", "time on two cores", "done"], listed, titles)
        return
    asked = papers.chosen(paper, figures or [])
    if data is not None:
        asked = papers.with_own_images(asked, data)
    papers.merge_results(asked, merge or [], out, errors)
    torch.set_num_threads(usable_cores())
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    workspace = papers.Workspace(
        Store(store),
        pick_device(device),
        ConsoleProgress(errors),
        errors,
        checkpoint_seconds,
        deadline=deadline,
        networks=networks,
        on=executor_from(on, lanes),
        worker_device=device,
        retry_failed=retry_failed,
    )
    if train_only:
        papers.train_studies(asked, workspace, out)
        return
    claims = papers.reproduce(asked, workspace, out)
    if not claims:
        return
    rows = [[claim.statement, claim.verdict, claim.got] for claim in claims]
    printed.print_table(["claim", "verdict", "got"], rows)
    printed.print(f"page: {out / paper}.md", soft_wrap=True)
