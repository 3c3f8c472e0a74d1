"""Write a preset as a TOML file of its run, with the rest as comments."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from unweave.core.spec import to_json
from unweave.presets.base import Preset

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 96


def to_toml(preset: Preset) -> str:
    """Return a TOML file for `--from`: the run, with source, commands and notes as comments."""
    name, grid, data = preset.name, " ".join(preset.arguments()), preset.download
    fetch = f"download {data} first: unweave data get {data}" if data else "nothing to download"
    lines = [
        f"{name}: {preset.title}",
        f"{preset.source}; data: {fetch}",
        "",
        f"unweave train --from {name}",
    ]
    if grid:
        lines += [f"unweave train --from {name} --grid", f"  {preset.count:,} runs: {grid}"]
    lines += ["", *(f"- {note}" for note in preset.notes)]
    comments = [line for text in lines for line in _comment(text)]
    return "\n".join([*comments, "", *_tables((), to_json(preset.run))]) + "\n"


def _comment(text: str) -> list[str]:
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return [f"# {line}".rstrip() for line in lines or [""]]


def _tables(path: tuple[str, ...], content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a TOML table and its subtables; None, which TOML lacks, is left out."""
    names = sorted(content, key="kind".__ne__)
    entries = {_key(name): content[name] for name in names if content[name] is not None}
    if path:
        yield f"[{'.'.join(path)}]"
    yield from (
        f"{key} = {_value(value)}" for key, value in entries.items() if not isinstance(value, dict)
    )
    for key, value in entries.items():
        if isinstance(value, dict):
            yield ""
            yield from _tables((*path, key), value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        fields = (f"{_key(name)} = {_value(each)}" for name, each in value.items())
        return f"{{ {', '.join(fields)} }}"
    if isinstance(value, list):
        return f"[{', '.join(_value(each) for each in value)}]"
    return json.dumps(value)
