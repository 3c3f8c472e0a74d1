"""The documentation page of all metrics, from the registry and their docstrings.

`docs/metrics.md` is `page()`.
"""

import inspect
import re
import textwrap

from unweave.catalogue.fields import one_line_each
from unweave.core.bibliography import cited, entries_for, entry_field
from unweave.core.hints import nearest
from unweave.metrics.needs import class_factors
from unweave.metrics.options import SHARED_ARGUMENTS
from unweave.metrics.registry import METRICS, UNSUPERVISED, Metric

_INTRODUCTION = """# Metrics

This page is generated from the code by `unweave metrics --page`.

Each metric is a function of arrays, `mig(codes, factors, protocol="locatello2019", seed=0)`, with
codes (N, D) and factors (N, K). It returns a `Score`: `float(score)`, `score.parts`,
`score.matrix`, `score.details`. A protocol is named after the paper whose numbers and rules it
follows; the same metric under two protocols gives two numbers. `evaluate(codes, factors)` runs all
quick metrics and prints a table, `metrics="all"` includes the slow ones, and `unweave score
codes.npz` does the same on the command line.

A `Table` holds what else is known: `scales` (N, D) of q(z|x), `kl` (D,), which codes are
`discrete`, and the names of the factors. `evaluate(table)` runs every applicable metric;
`left_out(table)` explains the rest. An .npz file with arrays of these names is a table. Other
arrays in it are ignored with a warning, unless their names look misspelt: then the file is refused.
Codes and labels may also be in .npy, CSV, Parquet or HDF5 files: `unweave score codes.csv
labels.csv` joins them by the names of the rows, if both have some, and text becomes classes.

Two metrics are of trained models and not of a table, and are computed if they are named:
`log_likelihood` and `udr` ([unsupervised metrics](unsupervised.md)).

**Few rows.** A table should have ten rows for each code and for each value of a factor; a
continuous factor counts as the 20 bins that it is cut into. Ten observations per coefficient are
the least for reliable regressions [Peduzzi1996], and all that is known of a value comes from its
rows. With fewer, uninformative codes score high: for noise in 10 codes and three factors of 10
values, `irs/suter2019` is 0.68 for 20 rows, 0.38 for 100 and 0.32 for 200; `mcc` is 0.42, 0.18 and
0.13. A metric then issues a `FewRowsWarning`, and `evaluate` one for the table; the command line
prints a note.

## Options of every metric

**Interval.** `interval=0.95` computes the metric on 200 random subsets of the rows (`resamples`)
and returns the interval that covers this share of the values, shifted so that their mean is the
value of all rows. If a protocol reads n of N rows, subsets have n N / (n + N) rows, half of all if
it reads all: without repetition their values vary, to first order, as much as those of n other rows
[Politis1994]. A bootstrap would repeat rows, which nearest neighbours mistake for information and
held-out rows for prediction: on 600 rows of partly entangled codes the bootstrap moves InfoM by
0.22, halves by 0.004, and the interval is 0.08 wide. Fewer different rows bias many metrics,
modularity by more than its standard deviation; the shift removes this bias. The interval is about
the number that the protocol gives for this many rows. Each subset has its own seed, so it covers
the choice of rows and the randomness of the metric. If all subsets score the same, as perfect codes
may, the interval is a single point: that is no evidence that the value is exact, and tables say so.

**Evidence.** `evaluate` and the command line mark a score as "no evidence" if fewer than two
factors could be scored, if there are too few rows, or if it exceeds its null by less than 0.05 or
by less than three standard deviations of the scores of shuffled factors.

**Randomness of the metric.** `reseeds=10` computes the metric with 10 other seeds on the same rows;
the detail "rng spread" is their standard deviation. It is a column of tables and CSV.

**Null.** `null=True` returns the mean over 10 shuffles (`shuffles`) of the factors against the
codes, and its standard deviation as the detail "null spread": the score of codes that have learned
nothing. It can be high: modularity of noise is far from 0.

**Cyclic factors.** Orientations 0 and 2 pi of dSprites are the same image, and a square looks the
same every quarter of a turn: no code can tell such values apart. The 40 orientations include both
ends, so a turn is 39 steps: `periods={"orientation": 39}` merges values that are equal modulo 39 (a
quarter is 9.75 steps, so no other steps of a square coincide). If a turn has 36 steps of ten
degrees, `periods={"orientation": {"shape": [9, 18, 36]}}` gives the period for each value of
another factor. `Table(..., periods=...)` stores them; `shapes2d` declares its own.

**Ceiling of a table.** An orientation merged by shape depends on the shape: a square has only its
first 9 steps, so the step carries information on the shape. If factors are dependent, even perfect
codes share information, so the best possible score is below 1: with 3 shapes, 36 orientations and
the periods [9, 18, 36], the merged factors as codes have MIG 0.67, FactorVAE score 0.91, and DCI
still 1. `ceiling=True` returns this number as the detail "ceiling", a column of tables and CSV. It
is 1 or close to it for independent factors, and lower for tables whose factors are correlated or
whose lattice is incomplete.

**Continuous factors.** A factor is continuous if it holds real numbers that do not repeat: on
average, each comes less than twice. Metrics of counts cut it into bins, like codes, and name it in
the detail "factors cut into bins"; metrics that hold a value fixed refuse it. Real numbers that
repeat, such as 40 angles, are classes. `Table.notes`, the `repr` of a table and `unweave score` say
how each factor is treated. `continuous=["angle"]` chooses, in metrics, `evaluate` and `Table`, and
`--continuous angle` on the command line: the factors given by name or index are continuous, also
integer ones, and all others are classes, so `continuous=[]` has none. To make classes of numbers
that do not repeat, cut them into bins that many rows share, as with
`numpy.digitize(column, numpy.quantile(column, [0.2, 0.4, 0.6, 0.8]))`.

**Missing labels** are NaN in the factors of a `Table`. Metrics of the factors read the rows without
any, in the factors of which at least half of the labels are known (`Table.labelled`), and
`evaluate` warns how many rows are not scored; unsupervised metrics read all rows.

**Repeatability.** The same `seed`, an integer or a NumPy generator, gives the same number, up to
rounding, on any machine and any number of threads, with or without an interval.

## Your own metric

A plain function of codes and factors that returns a number or a `Score` works in `evaluate`, next
to names: `evaluate(table, metrics=["mig", my_metric])`. It is named after the function. Decorated
with `metric`, a function of `Inputs` becomes a metric like those below: it takes all options of
every metric, and its arguments are checked and documented.

```python
import numpy as np
from unweave.metrics import Inputs, Score, evaluate, metric

@metric
def best_correlation(inputs: Inputs, *, power: int = 1) -> Score:
    \"""Compute the mean over factors of the largest absolute correlation with a code.\"""
    matrix = np.corrcoef(inputs.codes.T, inputs.values.T)[: inputs.dims, inputs.dims :]
    best = (np.abs(matrix) ** power).max(0)
    return inputs.score(
        best[inputs.scored].mean(), parts=inputs.by_factor(best), matrix=np.abs(matrix)
    )

factors = np.argwhere(np.ones((4, 5, 6)))
codes = factors + 0.5 * np.random.default_rng(0).standard_normal(factors.shape)
best_correlation(codes, factors, power=2, interval=0.95, null=True)
evaluate(codes, factors, metrics=["mig", best_correlation], ceiling=True)
```

`inputs.codes` (N, D) are float64 and `inputs.factors` (N, K) are labels 0, 1, ...; `inputs.values`
are the original factor values, `inputs.scored` the factors to score, and `inputs.rng` the generator
to draw from. A metric that reads only some rows passes `rows_read=` to `inputs.score`, from which
the size of the interval follows; one that cannot score continuous factors calls
`inputs.require_classes()`.

## All metrics
"""

_SOURCE = re.compile(r"\[[A-Z][A-Za-z]+\d{4}\]")


def page() -> str:
    """Return the page as Markdown."""
    lines = [["metric", "protocol", "continuous factors", "needs"], ["---"] * 4]
    by_name: dict[str, Metric] = {}
    for m in METRICS.values():
        by_name.setdefault(m.name, m)
        continuous = "no" if class_factors in m.needs else "yes"
        needs = _needs(m).replace("|", "\\|")
        lines.append([f"[{m.name}](#{m.name})", m.protocol, continuous, needs])
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([_INTRODUCTION, *rows, "", *map(section, by_name.values())])


def metric_list(width: int = 80) -> str:
    """Return one line for each metric: its name, and what it is."""
    parts = []
    for title, group in (("with factors", METRICS), ("without factors", UNSUPERVISED)):
        docs = {m.name: inspect.getdoc(m.compute) or "" for m in group.values()}
        first = {k: text.split("\n")[0].removeprefix("Compute ") for k, text in docs.items()}
        parts.append(f"{title}\n" + one_line_each(first, width))
    of_models = {
        "log_likelihood": "the importance-weighted bound of log p(x), in nats",
        "udr": "how far runs that differ only in their seed agree",
    }
    parts.append("of trained models\n" + one_line_each(of_models, width))
    return "\n".join([*parts, "`unweave metrics NAME` describes one of them.\n"])


def metric_page(name: str, width: int = 80) -> str:
    """Describe one metric: what its protocols compute and need, options, papers, and a command."""
    chosen = [m for m in METRICS.values() if m.name == name] or [
        m for m in UNSUPERVISED.values() if m.name == name
    ]
    if not chosen:
        raise ValueError(f"{name!r} is not a metric: {nearest(name, names())}")
    first = chosen[0]
    text = inspect.getdoc(first.compute) or ""
    description, _, rest = text.partition("\nArgs:\n")
    arguments, _, returns = rest.partition("\nReturns:\n")
    parameters = inspect.signature(first.compute).parameters
    options = []
    for option in _options(first):
        about = _indented(_argument(arguments, option), width)
        options.append(f"  {option}={parameters[option].default!r}\n{about}")
    papers = entries_for(cited(description))
    sections = [
        f"{name}\n\n{description.strip()}",
        "Protocols, and what they need:\n\n"
        + "\n".join(f"  {m.protocol}\n{_indented(_needs(m) or 'codes', width)}" for m in chosen),
        *(["Options in Python:\n\n" + "\n".join(options)] if options else []),
        *(["Returns:\n\n" + _indented(returns.split(">>>")[0], width)] if returns else []),
        *(["Papers:\n\n" + "\n".join(_papers(papers))] if papers else []),
        f"Example:\n\n  unweave evaluate RUN --metrics {name} --interval 0.95 --null",
    ]
    return "\n\n".join(sections) + "\n"


def names() -> list[str]:
    """Return the names of all metrics, each once."""
    return sorted({m.name for m in (*METRICS.values(), *UNSUPERVISED.values())})


def _argument(arguments: str, name: str) -> str:
    """Return what the documentation says about an argument."""
    found = re.search(rf"^    {name}: (.*(?:\n {{8,}}.*)*)", arguments, re.MULTILINE)
    return found[1] if found else ""


def _indented(text: str, width: int) -> str:
    indent = "      "
    joined = " ".join(text.split())
    return textwrap.fill(joined, width, initial_indent=indent, subsequent_indent=indent)


def _papers(entries: dict[str, str]) -> list[str]:
    return [f"  {key}  {entry_field(entry, 'title')}" for key, entry in entries.items()]


def section(metric: Metric) -> str:
    """Return the docstring of a metric, without its arguments and examples."""
    text = inspect.getdoc(metric.compute) or ""
    description, rest = text.split("\nArgs:\n")
    _, returns = rest.split("\nReturns:\n")
    returns = " ".join(returns.split(">>>")[0].split())
    options = ", ".join(f"`{name}`" for name in _options(metric))
    sources = " ".join(dict.fromkeys(_SOURCE.findall(description)))
    return (
        f"## {metric.name}\n\n{description.strip()}\n\n{returns} Options: {options}. "
        f"Papers: {sources}.\n"
    )


def _options(metric: Metric) -> list[str]:
    """Return the metric's own options."""
    shared = {"codes", "factors", "protocol", *SHARED_ARGUMENTS}
    return [name for name in inspect.signature(metric.compute).parameters if name not in shared]


def _needs(metric: Metric) -> str:
    lines = [(inspect.getdoc(need) or "").split("\n")[0].rstrip(".") for need in metric.needs]
    needs = [line.removeprefix("Require ") for line in lines]
    return "; ".join(needs)
