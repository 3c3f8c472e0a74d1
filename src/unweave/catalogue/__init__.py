"""Text generated from the code: methods, metrics, datasets, and fields of specs."""

from importlib.resources import files


def introduction(page: str) -> str:
    """Return the text that a generated page begins with, from its file in this folder."""
    return (files(__name__) / f"{page}.md").read_text(encoding="utf-8")
