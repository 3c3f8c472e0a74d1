"""The templates of pages."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from unweave.core.bibliography import entry_field
from unweave.core.text import visible
from unweave.report.text import code, number, symbol


def render_page(name: str, **context: Any) -> str:
    """Fill a template of this folder; text is escaped, and control characters are visible."""
    environment = Environment(
        loader=PackageLoader("unweave.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(code=code, symbol=symbol, number=number, entry_field=entry_field)
    return visible(environment.get_template(name).render(context))
