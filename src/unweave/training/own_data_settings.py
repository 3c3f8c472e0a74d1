"""The resolved settings of runs on a user's own data, in a few lines to read before training."""

import textwrap
from collections.abc import Sequence

from unweave import likelihoods
from unweave.data import Dataset
from unweave.training.overrides import default_fields, defaults_of, fields_of, is_spec
from unweave.training.own_data import LEAST_TO_SPLIT
from unweave.training.run import Run
from unweave.training.run_text import data_name, latent_text, objective_text, value_in_words

_WIDTH, _NAME, _MOST_VALUES = 79, 12, 3
_FIELDS = ("likelihood", "objective", "latent", "network", "optimiser", "batch_size", "steps")
_SCALINGS = {
    "none": "values as they are",
    "bytes": "values in [0, 1]",
    "percentile": "values scaled to [0, 1] by percentiles",
    "standardise": "standardised values",
    "common": "centred values on a common scale",
    "counts": "counts",
}


def settings_lines(
    runs: Sequence[Run], dataset: Dataset, held_out: Dataset | None = None
) -> list[str]:
    """Return the settings of resolved runs on the same own data; a star marks chosen ones.

    Args:
        runs: the runs; where they differ, all values are shown.
        dataset: the observations that they are trained on.
        held_out: the validation split, if there is one.
    """
    usual = [default_fields(run, dataset) for run in runs]
    lines = _lines("data", "  ", _data_text(runs[0], dataset, held_out))
    for name in _FIELDS:
        texts = list(dict.fromkeys(_text(name, run) for run in runs if getattr(run, name)))
        pairs = zip(runs, usual, strict=True)
        chosen = all(getattr(run, name) == fields[name] for run, fields in pairs)
        if texts:
            shown = [*texts[:_MOST_VALUES], *(["..."] if len(texts) > _MOST_VALUES else [])]
            lines += _lines(name.replace("_", " "), "* " if chosen else "  ", " | ".join(shown))
    return [*lines, "* was chosen; set a field to change it, such as steps=20000"]


def _lines(name: str, mark: str, text: str) -> list[str]:
    start = f"{name:{_NAME}}{mark}"
    return textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start))


def _data_text(run: Run, dataset: Dataset, held_out: Dataset | None) -> str:
    shape, scaling = " x ".join(map(str, dataset.shape)), dataset.schema.scaling.method
    text = f"{data_name(run.data)}: {dataset.size:,} observations of {shape}, {_SCALINGS[scaling]}"
    if dataset.size < LEAST_TO_SPLIT:
        text += ", which are few: the model may not generalise to others"
    if held_out is None:
        return f"{text}; nothing is held out"
    return (
        f"{text}; {held_out.size:,} more are held out for validation, and about as many for "
        "testing (data.split=all trains on all)"
    )


def _text(name: str, run: Run) -> str:
    """Describe a field of a run in a few words: the kind of a spec and the fields that were set."""
    value = getattr(run, name)
    if name == "latent":
        return latent_text(run.latent)
    if name == "objective":
        return objective_text(run)
    if isinstance(value, likelihoods.Gaussian) and value.learn != "nothing":
        what = "scale learned" if value.learn == "shared" else "a scale learned for each value"
        return f"{value.kind}, {what}, from {value.scale:g}"
    if not is_spec(value):
        return value_in_words(value)
    usual = defaults_of(type(value))
    fields = fields_of(value)
    shown = [each for n, each in enumerate(fields) if n == 0 or fields[each] != usual.get(each)]
    words = (f"{each.replace('_', ' ')} {value_in_words(fields[each])}" for each in shown)
    return ", ".join([value.kind, *words])
