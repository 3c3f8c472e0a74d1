"""The experiments of the papers by name, with the settings that the papers state.

A paper is one module with `PRESETS`. `preset("kim2018/shapes2d-factor-vae")` returns one of them;
`unweave presets` lists them.
"""

from __future__ import annotations

from unweave.presets import kim2018
from unweave.presets.base import Preset
from unweave.spec import nearest

__all__ = ["PRESETS", "Preset", "preset"]

PRESETS: dict[str, Preset] = {each.name: each for paper in (kim2018,) for each in paper.PRESETS}


def preset(name: str) -> Preset:
    """The preset of a name.

    >>> preset("kim2018/shapes2d-factor-vae").run.objective.gamma
    35.0
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}: {nearest(name, PRESETS)}")
    return PRESETS[name]
