"""How a trained model appears in a notebook: what it is, its curves, and short traversals."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from unweave.core.hints import count_noun
from unweave.core.html import html_table, sparkline
from unweave.core.text import number_text, visible
from unweave.training.final_terms import final_terms
from unweave.training.run_text import data_name, latent_text
from unweave.training.step import LOSS

if TYPE_CHECKING:
    from unweave.evaluation.model import FittedModel

_CURVES = 4  # terms of the log that are drawn
_VARIABLES = 6  # latent variables that are traversed, those that change observations most
_STEPS = 9  # images of a traversal
_LARGEST = 64  # pixels of the side of an image


def model_html(model: FittedModel) -> Markup:
    """Describe a trained model in a table, with curves of its log and traversals."""
    run = model.run
    shape = " x ".join(map(str, model.schema.shape))
    steps = model.log[-1]["step"] if model.log else run.steps
    facts = [
        ["objective", repr(run.objective)],
        ["data", f"{data_name(run.data)}, {model.schema.size:,} of {shape}"],
        ["latent space", latent_text(run.latent)],
        ["trained", f"{count_noun(int(steps), 'step')} of {run.batch_size}, seed {run.seed}"],
        *([["folder", str(model.folder)]] if model.folder else []),
    ]
    parts = [html_table([], facts, f"FittedModel {run.digest}"), _curves(model), _traversals(model)]
    return Markup(visible(Markup("<div>{}</div>").format(Markup("").join(parts))))


def _curves(model: FittedModel) -> Markup:
    names = [name for name in (model.log[0] if model.log else {}) if name != "step"]
    ends = final_terms(model.log)
    form = Markup('<span style="display:inline-block;margin:6px 18px 0 0">{} {}<br>{}</span>')
    drawn = []
    for name in sorted(names, key=lambda name: name != LOSS)[:_CURVES]:
        values = [row[name] for row in model.log if name in row]
        end = number_text(ends.get(name, values[-1]))
        drawn.append(form.format(name.replace("_", " "), end, sparkline(values)))
    return Markup("").join(drawn)


def _traversals(model: FittedModel) -> Markup:
    """Traverse the variables that change observations most.

    Traversals start from the middle observation, or from the prior's mean if the data are not
    loaded, which they need not be.
    """
    middle = model.observations([model.dataset.size // 2]) if model.source.loaded else None
    decoded = [each.astype(np.float64) for each in model.traverse(middle, steps=_STEPS)]
    with np.errstate(invalid="ignore"):  # decoders may overflow
        change = [float(np.std(each, axis=0).sum()) for each in decoded]
    order = sorted(range(len(decoded)), key=lambda number: -change[number])[:_VARIABLES]
    every = np.concatenate([decoded[number] for number in order])
    known = every[np.isfinite(every)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    rows = []
    for number in order:
        scaled = (decoded[number] - low) / ((high - low) or 1.0)
        rows.append([model.run.latent.names[number], _strip(scaled)])
    start = "the prior's mean" if middle is None else "one observation"
    return html_table([], rows, f"Traversals from {start}")


def _strip(observations: NDArray[Any]) -> Markup:
    """Draw observations (n, *shape) in [0, 1] side by side: images, or curves of vectors."""
    if observations.ndim == 2:
        vectors = observations if observations.shape[1] > 1 else observations.T
        lines = (sparkline(vector.tolist(), 60, 30, (0.0, 1.0)) for vector in vectors)
        return Markup("&ensp;").join(lines)
    if observations.shape[1] != 3:
        observations = observations.mean(1, keepdims=True)
    joined = np.nan_to_num(np.concatenate(list(observations), -1)).clip(0, 1)  # (C, H, n W)
    bands = [Image.fromarray(np.uint8(band * 255)) for band in joined]
    picture = bands[0] if len(bands) == 1 else Image.merge("RGB", bands)
    height = min(_LARGEST, picture.height)
    small = picture.resize((max(1, picture.width * height // picture.height), height))
    file = io.BytesIO()
    small.save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    return Markup(
        '<img src="data:image/png;base64,{}" style="height:44px;image-rendering:pixelated" '
        'alt="traversal">'
    ).format(data)
