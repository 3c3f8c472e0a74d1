"""Figures of the papers, reproduced: studies, drawings, and claims with their verdicts.

A paper is a module or a folder with `FIGURES`, and a line here. The texts of a figure are in a TOML
file beside its module: see `unweave.studies.texts`.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile

from unweave.core.console import PlainConsole
from unweave.core.files import make_folder
from unweave.core.hints import nearest, not_a_file
from unweave.core.lazy import public_names
from unweave.core.memory import is_out_of_memory
from unweave.core.text import error_line
from unweave.data import Arrays, InMemory, from_array
from unweave.data.dataset import DataNotFound
from unweave.papers import esmaeili2019, kim2018, mathieu2018, mathieu2019, sikka2019
from unweave.studies.drawing import figure_style
from unweave.studies.page import (
    check_index,
    done as done,
    state as state,
    write_index,
    write_page,
    write_result,
)
from unweave.studies.study import NotTrained, merge
from unweave.studies.training import train_or_load
from unweave.studies.workspace import (
    Claim as Claim,
    Cost,
    Measured as Measured,
    Reproduction as Reproduction,
    Result as Result,
    Workspace as Workspace,
    judge as judge,
)

__all__ = public_names(__name__)

FIGURES: tuple[Reproduction, ...] = (
    *sikka2019.FIGURES,
    *mathieu2019.FIGURES,
    *mathieu2018.FIGURES,
    *kim2018.FIGURES,
    *esmaeili2019.FIGURES,
)


# What a drawing raises if numbers in results have the right form, but not the right size.
_UNFIT = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def chosen(paper: str, figures: Sequence[str] = ()) -> list[Reproduction]:
    """Return the figures of a paper, or those that are named.

    >>> [reproduction.figure for reproduction in chosen("sikka2019")]
    ['fig1', 'fig2', 'fig3', 'orders']
    """
    own = {
        reproduction.figure: reproduction for reproduction in FIGURES if reproduction.paper == paper
    }
    if not own:
        papers = dict.fromkeys(reproduction.paper for reproduction in FIGURES)
        raise ValueError(f"there is no paper {paper!r}: {nearest(paper, papers)}")
    for figure in figures:
        if figure not in own:
            raise ValueError(f"{paper} has no figure {figure!r}: {nearest(figure, own)}")
    return [own[figure] for figure in own if figure in (figures or own)]


def with_own_images(figures: Sequence[Reproduction], path: Path) -> list[Reproduction]:
    """Return figures whose networks are trained on the images in a file of arrays.

    A study of given images stays as it is, and other images are an error. Otherwise the figure and
    its study are also named after the file, so that results on other images are never mixed.
    """
    rows = Arrays(str(path)).raw().rows
    images, _ = from_array(rows.read(0, rows.shape[0]))
    return [_on_images(reproduction, images, path.stem) for reproduction in figures]


def _on_images(reproduction: Reproduction, images: InMemory, name: str) -> Reproduction:
    study, word = reproduction.study, re.sub(r"\W+", "-", name.lower())
    if study is None:
        raise ValueError(
            f"--data is for figures drawn from a study, got {reproduction.figure}: leave it out"
        )
    size = images.shape[0]
    runs = [replace(run, data=images, batch_size=min(run.batch_size, size)) for run in study.runs]
    if runs == list(study.runs):  # the new ones keep the array in memory
        return replace(reproduction, study=replace(study, runs=runs))
    if isinstance(study.runs[0].data, InMemory):
        raise ValueError(
            f"{reproduction.figure} is about other images than those in {name}: docs/training.md "
            "(“Large studies”) says how to make its file"
        )
    return replace(
        reproduction,
        figure=f"{reproduction.figure}-{word}",
        title=f"{reproduction.title}, on the images of {name}",
        study=replace(study, name=f"{study.name}-{word}", runs=runs),
    )


def reproduce(
    figures: Sequence[Reproduction], workspace: Workspace, out: Path | str
) -> list[Claim]:
    """Reproduce figures, store their results, and write the pages of their papers under a folder.

    `figures` may be your own: a page has those of `FIGURES` and these.
    """
    claims: list[Claim] = []
    out = Path(out)
    for reproduction in figures:
        name = f"{reproduction.paper} {reproduction.figure}"
        workspace.start_figure(out)
        begun = Cost.now()
        with figure_style():  # raises before any training if figures cannot be drawn
            _check_writable(out / reproduction.paper)
            check_index(out)
            in_time = time.monotonic() < workspace.deadline
            cost = f": {reproduction.cost} on two cores" if in_time else ""
            workspace.say(f"{name}, {reproduction.title}{cost}")
            try:
                study = reproduction.study
                results = train_or_load(workspace, study) if study else None
            except DataNotFound as reason:
                if len(figures) == 1:
                    raise
                workspace.say(f"{name} is not drawn: {reason}")
                continue
            if results and not results.networks:
                workspace.say(f"no network of {name} is trained yet: nothing to draw")
                continue
            try:
                with _drawing(name, study.path(out) if study else None):
                    result = reproduction.make(*((workspace, results) if results else (workspace,)))
                    if results and result.networks is None:
                        counts = len(results.networks), len(results.study.runs)
                        result = replace(result, networks=counts)
                    if result.networks and not result.networks[0]:
                        raise NotTrained("none of the networks that it shows is trained yet")
                    write_result(reproduction, result, workspace, Cost.now() - begun, out)
            except NotTrained as reason:
                workspace.say(f"{name} is not drawn: {reason}")
                continue
        write_pages([reproduction.paper], out, figures)
        claims += result.claims
    return claims


@contextmanager
def _drawing(name: str, path: Path | None) -> Iterator[None]:
    """Name the file of results if a figure cannot be drawn from what it holds."""
    try:
        yield
    except (NotTrained, DataNotFound, FloatingPointError):
        raise
    except _UNFIT as error:
        if path is None or is_out_of_memory(error):
            raise
        raise ValueError(
            f"{name} cannot be drawn from {path} ({type(error).__name__}: {error_line(error)}): "
            "bring back the file from version control, or delete the lines that do not belong there"
        ) from error


def train_studies(figures: Sequence[Reproduction], workspace: Workspace, out: Path | str) -> None:
    """Train the missing networks of the studies of figures, and store their results."""
    without = [reproduction.figure for reproduction in figures if reproduction.study is None]
    if without:
        raise ValueError(
            f"--train-only is for figures drawn from a study, got {', '.join(without)}: leave it "
            "out for these"
        )
    for reproduction in figures:
        assert reproduction.study is not None
        workspace.start_figure(Path(out))
        train_or_load(workspace, reproduction.study)


def merge_results(
    figures: Sequence[Reproduction], files: Sequence[Path], out: Path | str, console: PlainConsole
) -> None:
    """Add networks from other files of results to the studies of figures; print how many."""
    studies = {
        reproduction.study.name: reproduction.study
        for reproduction in figures
        if reproduction.study
    }
    for file in files:
        if not studies:
            raise ValueError("--merge is for figures that are drawn from a study: name one")
        if not file.is_file():
            raise ValueError(f"expected a file at {file}, {not_a_file(file)}")
        for study in studies.values():
            new = merge(study, study.path(Path(out)), file)
            console.print(f"{file}: {new} new networks of {study.name}")


def write_pages(
    papers: Sequence[str], out: Path | str, own: Sequence[Reproduction] = ()
) -> list[Path]:
    """Write the pages of papers and the index from stored results, without training or drawing.

    `own` are your figures that are not in `FIGURES`.
    """
    known = list({(each.paper, each.figure): each for each in (*FIGURES, *own)}.values())
    out = Path(out)
    make_folder(out)
    return [*(write_page(paper, known, out) for paper in papers), write_index(known, out)]


def _check_writable(folder: Path) -> None:
    try:
        make_folder(folder)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"figures cannot be written to {folder}: {error.strerror}; give another folder by --out"
        ) from None
