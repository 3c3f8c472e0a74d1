"""What metrics need from a table: each function returns why a table does not meet it, or None."""

from collections.abc import Callable

import numpy as np

from unweave.metrics.arrays import Bools, Ints, as_mask
from unweave.metrics.inputs import MOST_CLASSES
from unweave.metrics.table import Table

Need = Callable[[Table], str | None]


def varied_factor(table: Table) -> str | None:
    """Require a factor that takes at least two values."""
    if table.factors.shape[1] == 0:
        return "the table has no factors"
    return None if _varied_factors(table).any() else "no factor of the table takes two values"


def two_factors(table: Table) -> str | None:
    """Require two factors that take at least two values."""
    if _varied_factors(table).sum() > 1:
        return None
    return varied_factor(table) or "fewer than two factors of the table take two values"


def class_factors(table: Table) -> str | None:
    """Require factors that are classes, with values that repeat."""
    names = [table.factor_names[k] for k in np.flatnonzero(table.continuous_mask)]
    return f"{_named_factors(names)} continuous" if names else None


def _named_factors(names: list[str], one: str = "is", many: str = "are") -> str:
    """Name factors, with a verb.

    >>> _named_factors(["size"]), _named_factors(["x", "y"], "has", "have")
    ('the factor size is', 'the factors x, y have')
    """
    if len(names) == 1:
        return f"the factor {names[0]} {one}"
    return f"the factors {', '.join(names)} {many}"


def learnable_classes(most: int = MOST_CLASSES) -> Need:
    """Return a need of factors of at most `most` classes."""

    def need(table: Table) -> str | None:
        counts = zip(table.factor_names, table.value_counts, table.continuous_mask, strict=True)
        many = [name for name, count, continuous in counts if count > most and not continuous]
        few = f"more than {most:,} classes, too many for classifiers"
        return f"{_named_factors(many, 'has', 'have')} {few}" if many else None

    limit = f"at most {most:,} classes; continuous ones may have more values"
    need.__doc__ = f"Require factors of {limit}."
    return need


def repeated_value(table: Table) -> str | None:
    """Require a varied factor with a value that two rows share, so that it can be held fixed."""
    counts = [len(np.unique(column)) for column in table.merged_factors.T]
    fixable = any(1 < count < len(table) for count in counts)
    return None if fixable else "no varied factor of the table has a value that two rows share"


def two_quantities(table: Table) -> str | None:
    """Require two codes that are not categories, and not all of them 0."""
    columns = _continuous_codes(table)
    enough = len(columns) > 1 and table.codes[:, columns].any()
    return None if enough else "fewer than two codes of the table are numbers that are not all 0"


def two_varied(table: Table) -> str | None:
    """Require two codes that are not categories and vary."""
    z = table.codes[:, _continuous_codes(table)]
    enough = int((z != z[:1]).any(0).sum()) > 1
    return None if enough else "fewer than two codes of the table are numbers that vary"


def two_codes(table: Table) -> str | None:
    """Require two codes."""
    return None if table.codes.shape[1] > 1 else "the table has a single code"


def a_quantity(table: Table) -> str | None:
    """Require a code that is not a category."""
    return None if len(_continuous_codes(table)) else "all codes of the table are categories"


def divergences(table: Table) -> str | None:
    """Require the mean KL(q(z_j|x) || p(z_j)) of each code."""
    return None if table.kl is not None else "the table has no kl"


def posterior_scales(table: Table) -> str | None:
    """Require the standard deviations of q(z|x)."""
    return None if table.scales is not None else "the table has no posterior scales"


def normal_posteriors(table: Table) -> str | None:
    """Require codes with q(z_j|x) = N(code, scale^2)."""
    discrete = as_mask("discrete", table.discrete, table.codes.shape[1])
    normal = ~discrete if table.normal is None else table.normal
    others = np.flatnonzero(~normal | discrete)
    if not len(others):
        return None
    return f"q(z|x) is not normal in {', '.join(f'code {j}' for j in others)}"


def _varied_factors(table: Table) -> Bools:
    varied: Bools = (table.merged_factors != table.merged_factors[:1]).any(0)
    return varied


def _continuous_codes(table: Table) -> Ints:
    return np.flatnonzero(~as_mask("discrete", table.discrete, table.codes.shape[1]))
