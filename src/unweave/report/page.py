"""Render the page about a run: one self-contained HTML file."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import unweave
from unweave.core import spec
from unweave.core.bibliography import citations
from unweave.core.files import make_folder
from unweave.core.parts import UNNAMED
from unweave.data import InMemory
from unweave.evaluation.model import FittedModel
from unweave.evaluation.shared_latents import LEAST_INFORMATION
from unweave.metrics import Score
from unweave.metrics.registry import metric_citations
from unweave.report import figures, summary, traversals, vectors
from unweave.report.analysis import Analysis, analyse
from unweave.report.pictures import colour_legend, is_image
from unweave.report.templates import render_page
from unweave.report.verdict import verdict
from unweave.training import run_text
from unweave.training.overrides import train_arguments
from unweave.training.run_files import check_page, write_page


def write_report(
    model: FittedModel,
    path: str | Path,
    *,
    rows: int = 10_000,
    scores: dict[str, Score] | None = None,
    channels: Sequence[int] = (),
    explorer: str = "",
) -> Path:
    """Write a page about a trained run, computed from `rows` observations of its data.

    The file contains its images, charts and styles, and loads nothing else. The same model gives
    the same bytes. If you have the scores of the same rows already, pass them to avoid computing
    them again. `channels` selects the channels of images to show; three are red, green and blue.
    `explorer` is a link to a page written by `share`, such as "explorer.html" in the same folder.
    """
    if not isinstance(model, FittedModel):
        raise TypeError(
            f"expected one model, got a {type(model).__name__}: write one report for each model; "
            "`share` takes several"
        )
    place = Path(path)
    check_page(place)
    make_folder(place.parent)
    page = render(model, rows=rows, scores=scores, channels=channels, explorer=explorer)
    write_page(place, page.encode())
    return place


def render(
    model: FittedModel,
    *,
    rows: int = 10_000,
    scores: dict[str, Score] | None = None,
    channels: Sequence[int] = (),
    explorer: str = "",
) -> str:
    """Return the page about a trained run as HTML."""
    analysis = analyse(model, rows, scores)
    context = _texts(analysis) | _charts(analysis) | _observations(analysis, channels)
    return render_page("page.html.j2", **context, explorer=explorer)


def _texts(analysis: Analysis) -> dict[str, Any]:
    model = analysis.model
    tiles = summary.tiles(analysis)
    return {
        "analysis": analysis,
        "least_information": f"{LEAST_INFORMATION:g}",
        "verdict": verdict(analysis),
        "run": model.run,
        "objective": type(model.run.objective).__name__,
        "equation": summary.equation(analysis),
        "weights": summary.weights(analysis),
        "latent": run_text.latent_text(model.run.latent),
        "data": run_text.data_name(model.run.data),
        "tiles": tiles,
        "tile_columns": summary.tile_columns(len(tiles)),
        "information_bound": summary.information_bound(analysis),
        "correlations": summary.correlations(analysis),
        "dependent_prior": summary.dependent_prior(analysis),
        "parts": run_text.parts(model.run, model.dataset),
        "command": (command := train_arguments(model.run, model.dataset)),
        "unnamed": UNNAMED if any(UNNAMED in line for line in command) else "",
        "in_memory": isinstance(model.run.data, InMemory),
        "run_json": json.dumps(spec.to_json(model.run), indent=2, ensure_ascii=False),
        "references": citations(model.run)
        | metric_citations(analysis.scores | analysis.unsupervised),
        "versions": {
            "unweave": unweave.__version__,
            "torch": torch.__version__,
            "Python": platform.python_version(),
        },
        "scores": summary.score_rows(analysis),
        "unsupervised": summary.unsupervised_rows(analysis),
        "factors": [factor for _, factor in analysis.factors],
        "constant": summary.constant_factors(analysis),
        "information": summary.information_rows(analysis),
        "best": [
            None if each.at_chance else each.best[0][0].number for each in analysis.best_variables
        ],
        "chance": summary.chance_text(analysis),
        "shares": summary.share_text(analysis),
        "no_evidence": summary.common_reason(analysis),
        "counts": summary.counts_text(analysis),
        "left_out": summary.left_out_metrics(analysis),
    }


def _charts(analysis: Analysis) -> dict[str, Any]:
    return {
        "curves": figures.log_curves(analysis),
        "measured": figures.measured_curves(analysis),
        "held_out": any("validation" in row for row in analysis.model.measures),
        "scheduled": bool(figures.scheduled_weights(analysis)),
        "marginals": figures.marginals(analysis),
        "responses": figures.responses(analysis),
    }


def _observations(analysis: Analysis, channels: Sequence[int]) -> dict[str, Any]:
    """Return everything that shows observations: as images, or as lines if they are vectors."""
    samples, starts = traversals.prior_samples(analysis), analysis.starts()
    if is_image(analysis.model.dataset.shape):
        colours = traversals.image_colours(analysis, channels)
        return {
            "images": True,
            "legend": colour_legend(colours, analysis.model.schema),
            "reconstructions": traversals.reconstruction_sheets(analysis, colours),
            "traversals": [traversals.traversal(analysis, start, colours) for start in starts],
            "samples": traversals.sample_sheet(samples, colours),
        }
    rows = analysis.some_rows(8, "searched")
    return {
        "images": False,
        "where": starts[0].where,
        "caption": vectors.vectors_of(analysis).caption,
        "reconstructions": vectors.vector_reconstructions(
            analysis, analysis.observations(rows), analysis.reconstructions(rows)
        ),
        "traversals": vectors.vector_traversals(analysis, starts[0].row),
        "samples": vectors.vector_samples(analysis, samples),
    }
