"""Untrusted text, such as names in a file, made safe to print, to put into a page, and into CSV.

Nothing else in the package may write such text: terminals obey escape sequences, readers are
misled by characters that reverse the direction of writing, and spreadsheets run formulas.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence

# Control characters except tabs and ends of lines, halves of surrogate pairs, line and paragraph
# separators, and marks of direction.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_MARKUP = re.compile(r"[\\`*_\[\]<>&|~$#@:!]|(?<=www)\.")  # also links that readers make
_FORMULA = re.compile(r"[=+\-@\t\r]")  # how a cell begins that a spreadsheet computes


def visible(text: str) -> str:
    r"""Write characters that control a terminal or the direction of writing as escapes.

    >>> visible("a\x1b[31mb\u202e"), visible("naïve, 日本, عربي")
    ('a\\x1b[31mb\\u202e', 'naïve, 日本, عربي')
    """
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def one_line(text: str) -> str:
    """Return visible text without line breaks, so that it cannot look like other lines."""
    return visible(" ".join(text.splitlines()))


def error_line(error: Exception, which: int = 0) -> str:
    r"""Return the first line of an error's message, or the last (-1), or its type without one.

    >>> error_line(ValueError("no\nyes")), error_line(ValueError("no\nyes"), -1)
    ('no', 'yes')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[which]


def number_text(value: float, form: str = ".4g") -> str:
    """Format a number; one that is not finite is called so.

    >>> number_text(1.25), number_text(float("nan")), number_text(float("-inf"), ".2f")
    ('1.25', 'not finite', 'not finite')
    """
    return format(value, form) if math.isfinite(value) else "not finite"


def json_text(content: object) -> str:
    """Return indented JSON; numbers that are not finite, which JSON does not have, become null."""
    return json.dumps(_finite(content), indent=2, allow_nan=False) + "\n"


def _finite(content: object) -> object:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return content


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return a header and rows as comma-separated values that no spreadsheet takes for formulas.

    >>> csv_text(["name", "=x"], [["-0.5", -0.5], ["@sum", "north"]])
    "name,'=x\n-0.5,-0.5\n'@sum,north\n"
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in (head, *rows))
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    formula = _FORMULA.match(value) and not _is_number(value)
    return visible(f"'{value}" if formula else value)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a header and rows as a table in Markdown.

    >>> markdown_table(["a"], [["b|c"]])
    '| a |\n| --- |\n| b\\|c |\n'
    """
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        "| " + " | ".join(each.replace("|", r"\|") for each in line) + " |\n" for line in lines
    )


def markdown_text(text: str) -> str:
    r"""Write text as a line of Markdown that has no markup, links, formulas or mentions.

    >>> markdown_text("2 CPU threads"), markdown_text("<b> [a](b:c) \u202e www.a.b")
    ('2 CPU threads', '\\<b\\> \\[a\\](b\\:c) \\\\u202e www\\.a.b')
    """
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def unquoted(cell: str) -> str:
    """Return a cell without the quote that `csv_text` puts before what looks like a formula."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell, 1) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
