"""Experiments of the papers by name, with the settings that the papers state.

A paper is one module with `PRESETS`. `preset("kim2018/shapes2d-factor-vae")` returns one of them;
`unweave presets` lists them.
"""

from pathlib import Path
from typing import Any

from unweave.core.hints import nearest, suggestion
from unweave.core.lazy import public_names
from unweave.core.spec import to_json
from unweave.presets import esmaeili2019, kim2018, mathieu2018, mathieu2019, sikka2019
from unweave.presets.base import Preset as Preset
from unweave.training.overrides import base_from

__all__ = public_names(__name__)

_PAPERS = (kim2018, mathieu2019, mathieu2018, sikka2019, esmaeili2019)
PRESETS: dict[str, Preset] = {each.name: each for paper in _PAPERS for each in paper.PRESETS}


def preset(name: str) -> Preset:
    """Return a preset by its name.

    >>> preset("kim2018/shapes2d-factor-vae").run.objective.gamma
    35.0
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}: {_hint(name)}")
    return PRESETS[name]


def presets_of(name: str | None = None) -> list[Preset]:
    """Return the presets of a paper, or all of them."""
    papers = list(dict.fromkeys(each.paper for each in PRESETS.values()))
    if name is not None and name not in papers:
        raise ValueError(f"there is no paper {name!r}: {nearest(name, papers)}")
    return [each for each in PRESETS.values() if name in (None, each.paper)]


def base_of(name: str) -> dict[str, Any]:
    """Return the run of a preset or a file in JSON form; an existing file takes precedence."""
    path = Path(name)
    if path.is_file() or (name not in PRESETS and path.suffix):
        return base_from(path)
    if name not in PRESETS:
        raise ValueError(
            f"--from: there is no preset or file {name!r}: {_hint(name)}; a file is a "
            "run.json or .toml"
        )
    base: dict[str, Any] = to_json(PRESETS[name].run)
    return base


def _hint(name: str) -> str:
    return f"{suggestion(name, PRESETS)}`unweave presets` lists all presets"
