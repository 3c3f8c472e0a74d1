"""The templates of pages."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from unweave.core.bibliography import entry_field
from unweave.report.text import number, symbol


def template(name: str) -> Template:
    """Return a template of this folder; text is escaped, and undefined names are errors."""
    environment = Environment(
        loader=PackageLoader("unweave.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(symbol=symbol, number=number, entry_field=entry_field)
    return environment.get_template(name)
