"""The page: sections put together by a template, as one file that needs nothing else."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined

import unweave
from unweave.core import spec
from unweave.core.bibliography import citations, entry_field
from unweave.core.files import write_atomically
from unweave.evaluation.model import FittedModel
from unweave.metrics import Score
from unweave.metrics.registry import metric_citations
from unweave.report import facts, figures, observed
from unweave.report.content import DEAD, Content, gather
from unweave.report.pictures import is_image
from unweave.report.text import number, symbol
from unweave.training import recipe


def write_report(
    model: FittedModel,
    path: str | Path,
    *,
    rows: int = 10_000,
    scores: dict[str, Score] | None = None,
) -> Path:
    """Write a page about a trained run, computed from `rows` observations of its data.

    Scores of the same rows that are there already need not be computed again.
    The file holds its pictures, charts and style: it opens from a disk and asks for nothing else.
    The same model gives the same bytes.
    """
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, render(model, rows=rows, scores=scores).encode())
    return place


def render(
    model: FittedModel, *, rows: int = 10_000, scores: dict[str, Score] | None = None
) -> str:
    """The page about a trained run as HTML."""
    content = gather(model, rows, scores)
    environment = Environment(
        loader=PackageLoader("unweave.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(symbol=symbol, number=number, entry_field=entry_field)
    context = _facts(content) | _drawings(content) | _observed(content)
    return environment.get_template("page.html.j2").render(context)


def _facts(content: Content) -> dict[str, Any]:
    """Names, numbers and tables."""
    model = content.model
    tiles = facts.tiles(content)
    return {
        "content": content,
        "dead_nats": f"{DEAD:g}",
        "run": model.run,
        "objective": type(model.run.objective).__name__,
        "equation": facts.equation(content),
        "weights": facts.weights(content),
        "latent": recipe.latent_name(model.run.latent),
        "data": recipe.data_name(model.run),
        "tiles": tiles,
        "tile_columns": facts.tile_columns(len(tiles)),
        "bound": facts.bound(content),
        "correlations": facts.correlations(content),
        "dependent_prior": facts.dependent_prior(content),
        "parts": recipe.parts(model.run, model.dataset),
        "command": recipe.command(model.run, model.dataset),
        "in_memory": recipe.in_memory(model.run),
        "run_json": json.dumps(spec.to_json(model.run), indent=2, ensure_ascii=False),
        "references": _references(content),
        "versions": _versions(),
        "scores": facts.score_rows(content),
        "factors": [factor for _, factor in content.factors],
        "constant": facts.constant_factors(content),
        "heat": facts.heat(content),
        "best": [told.best[0][0].number for told in content.told],
    }


def _drawings(content: Content) -> dict[str, Any]:
    """Charts that every kind of data has."""
    return {
        "curves": figures.curves(content),
        "measured": figures.measured(content),
        "scheduled": bool(figures.scheduled(content)),
        "marginals": figures.marginals(content),
        "responses": figures.responses(content),
    }


def _observed(content: Content) -> dict[str, Any]:
    """What shows observations: pictures, or lines where they are vectors."""
    drawn, starts = observed.samples(content), content.starts()
    if is_image(content.model.dataset.shape):
        span = observed.span_of(content)
        return {
            "pictured": True,
            "span": span,
            "pairs": observed.reconstruction_pairs(content, span),
            "traversals": [observed.traversal(content, start, span) for start in starts],
            "samples": observed.sample_sheet(drawn, span),
        }
    flat = content.some_rows(8, "searched")
    return {
        "pictured": False,
        "where": starts[0].where,
        "profiles": figures.profiles(content.observations(flat), content.reconstructions(flat)),
        "walks": figures.walks(content, starts[0].row),
        "overlay": figures.overlay(drawn),
    }


def _references(content: Content) -> dict[str, str]:
    """BibTeX entries of the run and of the metrics it was measured with."""
    return citations(content.model.run) | metric_citations(content.scores)


def _versions() -> dict[str, str]:
    return {
        "unweave": unweave.__version__,
        "torch": torch.__version__,
        "Python": platform.python_version(),
    }
