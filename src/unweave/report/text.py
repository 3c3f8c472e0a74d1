"""Format names, numbers and plain-text mathematics for display."""

import re
from typing import get_args

import numpy as np
from markupsafe import Markup

from unweave.core.text import number_text
from unweave.evaluation.evaluate import AggregateName

GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "lambda": "λ",
    "lam": "λ",
    "eta": "η",
}
_ACRONYMS = ("vae", "mig", "jemmig", "dcimig", "mcc", "mec", "dci", "sap", "udr", "mi", "tc", "kl",
             "irs")  # fmt: skip
_TITLES = {
    "factor_vae_score": "FactorVAE score",
    "beta_vae_score": "β-VAE score",
    "info_mec": "InfoMEC",
    "mig_sup": "MIG-sup",
    "dci_es": "DCI-ES",
    "r2": "R²",
}
_HUGE = 1e12  # numbers from which are written with a power of ten
_PERSONS = ("gaussian", "hoyer", "wasserstein")
_SIGNS = {rf"\b{name}\b": letter for name, letter in GREEK.items()} | {
    r"\|\|": "‖",
    r"\bsum_": "Σ_",
    r"\bprod_": "∏_",
    r"(?<![\w-])-(?=\w)": "−",
    r" - ": " − ",
}
# A single letter that names a quantity, with an optional index.
_LETTERS = re.compile(r"(?<![\w\[])([b-zDEΣ∏])(?:_(\w))?(?!\w)")


def symbol(name: str) -> Markup:
    """Return a latent variable as z with its name as the index."""
    return Markup("<var>z<sub>{}</sub></var>").format(name)


def code(text: str) -> Markup:
    """Return text in which what stands between backticks is marked as code.

    >>> code("use `a < b`")
    Markup('use <code>a &lt; b</code>')
    """
    parts = [Markup("<code>{}</code>" if n % 2 else "{}").format(each)
             for n, each in enumerate(text.split("`"))]  # fmt: skip
    return Markup("").join(parts)


def words(name: str) -> str:
    """Return the name of a term, a weight or a metric as words.

    >>> words("dimension_kl"), words("beta"), words("factor_vae_score")
    ('dimension KL', 'β', 'FactorVAE score')
    """
    if name in _TITLES:
        return _TITLES[name]
    parts = [part.upper() if part in _ACRONYMS else part for part in name.split("_")]
    named = [part.capitalize() if part in _PERSONS else part for part in parts]
    return GREEK.get(name, " ".join(named))


def metric_title(key: str) -> str:
    """Return the name of a metric and its protocol for display.

    >>> metric_title("mig/chen2018"), metric_title("rate")
    ('MIG · chen2018', 'rate')
    """
    name, _, protocol = key.partition("/")
    return f"{words(name)} · {protocol}" if protocol else words(name)


def measured_title(key: str) -> str:
    """Return the name of a value measured during training: a term, a metric or a held-out loss.

    >>> measured_title("terms/total_correlation"), measured_title("metrics/total_correlation")
    ('measured total correlation, by the objective', 'exact total correlation')
    >>> measured_title("terms/rate"), measured_title("metrics/mig/chen2018")
    ('measured rate', 'measured MIG · chen2018')
    """
    kind, _, name = key.partition("/")
    title = metric_title(name)
    if kind == "validation":
        return f"held-out {title}"
    if not is_aggregate(name):
        return f"measured {title}"
    return f"measured {title}, by the objective" if kind == "terms" else f"exact {title}"


def is_aggregate(name: str) -> bool:
    """Whether a value is a part of the rate under the exact q(z), in nats.

    >>> is_aggregate("information/style.0"), is_aggregate("mig/chen2018")
    (True, False)
    """
    return name.partition("/")[0] in get_args(AggregateName)


def number(value: float, digits: int = 2) -> str:
    """Format a number with a true minus sign, no sign before zero, and no decimals from 1,000.

    >>> number(-24.687), number(-0.001), number(1436.27)
    ('−24.69', '0.00', '1,436')
    """
    if (text := _unusual(value)) is not None:
        return text
    text = f"{value:,.{0 if abs(value) >= 1000 else digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text.replace("-", "−")


def short(value: float, digits: int = 4) -> str:
    """Format a number in few characters, for ticks.

    >>> short(-0.5), short(30_000), short(2_500_000), short(2e11)
    ('−0.5', '30k', '2.5M', '200G')
    """
    if (text := _unusual(value)) is not None:
        return text
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.{digits}g}{unit}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def significant(value: float, digits: int = 3) -> str:
    """Format a number with this many significant digits and no exponent, as the explorer does.

    >>> significant(2679.6), significant(-0.00012345), significant(1e30)
    ('2680', '−0.000123', '1e+30')
    """
    rounded = float(f"{value:.{digits}g}")
    usual = rounded == 0 or 1e-6 <= abs(rounded) < 1e21
    text = np.format_float_positional(rounded, trim="-") if usual else f"{rounded:g}"
    return text.replace("-", "−", 1) if usual else text


def _unusual(value: float) -> str | None:
    """Format a number that is not finite or huge; None for others.

    >>> _unusual(float("inf")), _unusual(-1e308), _unusual(12.0)
    ('not finite', '−1e+308', None)
    """
    usual = abs(value) < _HUGE
    return None if usual else number_text(value, ".3g").replace("-", "−")


def cut(text: str, most: int) -> str:
    """Shorten text to at most `most` characters.

    >>> cut("chlorophyll", 7), cut("red", 7)
    ('chloro…', 'red')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def typeset(text: str) -> Markup:
    """Convert plain-text mathematics to HTML: Greek letters, signs, indices, italic variables.

    >>> typeset("beta KL(q(z_j) || p(z_j))")
    Markup('β KL(<var>q</var>(<var>z<sub>j</sub></var>) ‖ <var>p</var>(<var>z<sub>j</sub></var>))')
    """
    for plain, sign in _SIGNS.items():
        text = re.sub(plain, sign, text)
    pieces = _LETTERS.split(text)
    between, letters, indices = pieces[::3], [*pieces[1::3], ""], [*pieces[2::3], None]
    return Markup("").join(
        Markup("{}{}").format(gap, _variable(letter, index))
        for gap, letter, index in zip(between, letters, indices, strict=True)
    )


def _variable(letter: str, index: str | None) -> Markup:
    sub = Markup("<sub>{}</sub>").format(index) if index else ""
    upright = not letter or letter in "Σ∏"
    return Markup("{}{}" if upright else "<var>{}{}</var>").format(letter, sub)
