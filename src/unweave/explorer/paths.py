"""Remove the paths of this machine from texts that others may read."""

import re

# From a root on, folders may have spaces; a space before another root begins another path.
_ROOT = r"(?:~|[A-Za-z]:)?[/\\]"
_INSIDE = r"(?:[^'\"/\\:]|:(?!\s))"
_ABSOLUTE = re.compile(rf"(?<![\w.]){_ROOT}(?:{_INSIDE}*(?<!\s)(?<!\s~)(?<!\s[A-Za-z]:)[/\\])*")
_RELATIVE = re.compile(r"(?:[^\s'\"()=,;]*[/\\])+")


def without_paths(text: str) -> str:
    """Shorten every path in a text to its last part.

    >>> without_paths("/home/ada/runs/3f2a has no weights yet: train it first")
    '3f2a has no weights yet: train it first'
    >>> without_paths("cannot read /home/ada/my own (old) runs/3f2a: it is not /tmp/5b")
    'cannot read 3f2a: it is not 5b'
    """
    return _RELATIVE.sub("", _ABSOLUTE.sub("", " ".join(text.split())))
