"""Words of messages: hints at the valid names nearest to a wrong one, paths, counted nouns."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

MOST_LISTED = 60  # valid names that are listed; of more, only the nearest
_FEW = 5


def suggestion(name: object, valid: Iterable[str]) -> str:
    """Return "did you mean ...? " for the valid name nearest to a wrong one; "" if none is near.

    >>> suggestion("training", ["all", "train"]), suggestion("x", ["all", "train"])
    ("did you mean 'train'? ", '')
    """
    return _question(_close(name, list(valid), 1))


def nearest_name(name: object, valid: Iterable[str]) -> str:
    """Return the valid name nearest to a wrong one, or "".

    >>> nearest_name("beta-vea", ["vae", "beta-vae"]), nearest_name("x", ["vae"])
    ('beta-vae', '')
    """
    return next(iter(_close(name, list(valid), 1)), "")


def check_choice(name: str, value: object, valid: Iterable[str]) -> None:
    """Raise unless an option, such as a protocol, has one of the valid values.

    >>> check_choice("codes", "men", ["mean", "prior-cdf"])
    Traceback (most recent call last):
    ValueError: codes: 'men' is not known: did you mean 'mean'? The choices are mean, prior-cdf.
    """
    if value not in (choices := list(valid)):
        raise ValueError(f"{name}: {value!r} is not known: {nearest(value, choices)}")


def _close(name: object, choices: list[str], count: int) -> list[str]:
    """Return the valid names near to a wrong one, the nearest first; case does not matter."""
    as_given = {choice.lower(): choice for choice in choices}
    lowered = difflib.get_close_matches(str(name).lower(), as_given, n=count, cutoff=0.5)
    return [as_given[each] for each in lowered]


def _question(close: Sequence[str]) -> str:
    """Ask for the first of some names, if there are any."""
    return f"did you mean {close[0]!r}? " if close else ""


def nearest(name: object, valid: Iterable[str], most_listed: int = MOST_LISTED) -> str:
    """Return a hint that lists the valid names, and asks for the nearest one if it is near.

    Upper and lower case are the same. Of many names, only the few nearest are listed.

    >>> nearest("fp2", ["bf16", "fp32"]), nearest("x", ["dci", "mig"])
    ("did you mean 'fp32'? The choices are bf16, fp32.", 'the choices are dci, mig.')
    >>> nearest("MIG", ["dci", "mig"])
    "did you mean 'mig'? The choices are dci, mig."
    >>> nearest("gene7x", [f"gene{number}" for number in range(20_000)])
    "did you mean 'gene7'? Near it: gene97, gene87, gene79, gene78; there are 20,000 choices."
    """
    choices = list(valid)
    many = len(choices) > most_listed
    if not many:
        choices.sort()
    close = _close(name, choices, _FEW if many else 1)
    hint = _question(close)
    if not many:
        return f"{hint}{'The' if hint else 'the'} choices are {', '.join(choices)}."
    near = f"Near it: {', '.join(close[1:])}; " if close[1:] else ""
    first = "" if close else f", such as {choices[0]}"
    there = "There" if hint and not near else "there"
    return f"{hint}{near}{there} are {len(choices):,} choices{first}."


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """Join words by commas, and the last one by a conjunction.

    >>> join_words(["a", "b", "c"]), join_words(["a", "b"], "or"), join_words(["a"])
    ('a, b and c', 'a or b', 'a')
    """
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def near_paths(path: str | Path) -> list[str]:
    """Return existing paths with a name near that of a missing one, the nearest first."""
    place = Path(path)
    missing = next((each for each in (place, *place.parents) if each.parent.is_dir()), place)
    try:
        names = sorted(entry.name for entry in missing.parent.iterdir())
    except OSError:  # a folder without permission to list it
        return []
    close = difflib.get_close_matches(missing.name, names, n=3, cutoff=0.5)
    paths = [missing.parent / name / place.relative_to(missing) for name in close]
    return [str(each) for each in paths if each.exists()]


def nearest_path(path: str | Path) -> str:
    """Return a hint for a missing path: the nearest existing one."""
    return _question(near_paths(path)).rstrip() or "check the path."


def not_a_file(path: Path) -> str:
    """Say what is at a path where a file was expected, with a hint if nothing is.

    >>> not_a_file(Path())
    'got a folder, a pipe or a device'
    """
    if path.exists():
        return "got a folder, a pipe or a device"
    return f"got nothing there: {nearest_path(path)}"


@contextmanager
def naming(*paths: str | PathLike[str] | None) -> Iterator[None]:
    """Let errors about the content of files begin with their paths, unless they name one.

    >>> with naming("a.npy", None):
    ...     raise ValueError("expected numbers, got text")
    Traceback (most recent call last):
    ValueError: a.npy: expected numbers, got text
    """
    try:
        yield
    except ValueError as error:
        given = [str(path) for path in paths if path is not None]
        if not given or type(error) is not ValueError or any(each in str(error) for each in given):
            raise
        raise ValueError(f"{' and '.join(given)}: {error}") from None


def count_noun(count: int, noun: str) -> str:
    """Return a number and a noun, in the plural unless there is one.

    >>> count_noun(1, "step"), count_noun(2_000, "step"), count_noun(2, "class")
    ('1 step', '2,000 steps', '2 classes')
    """
    plural = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{'' if count == 1 else plural}"
