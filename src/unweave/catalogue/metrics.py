"""All metrics as a page: their protocols, what they read, their papers and how they differ.

Read from the registry and the docstrings. `docs/metrics.md` is `page()`.
"""

from __future__ import annotations

import inspect
import re

from unweave.metrics.options import Frame
from unweave.metrics.registry import METRICS, Metric, class_factors

_INTRODUCTION = """# Metrics

This page is made by `unweave metrics` from the code.

Each metric is a function of arrays, `mig(codes, factors, protocol="locatello2019", rng=0)`, with
codes (N, D) and factors (N, K), and gives a `Score`: `float(score)`, `score.parts`, `score.matrix`,
`score.details`. The same name under two protocols means two numbers; a protocol is named after the
paper whose numbers and rules it follows. `evaluate(codes, factors)` gives all that are quick as a
table, and with `metrics="all"` the slow ones too; `unweave score codes.npz` does so on the command
line.

A `Table` holds what else is known: `scales` (N, D) of q(z|x), `kl` (D,), which codes are
`discrete`, names of the factors. `evaluate(table)` runs the metrics that it does for, and
`left_out(table)` says why not the others. An .npz file of arrays of these names is a table; others
in it are not read, which is told, unless they seem misspelt: these are refused.

**Few rows.** A table should have ten rows for each code, and for each value of a factor; a factor
of real numbers counts as the 20 bins that it is cut into. Ten to a coefficient are the least that
regressions are trusted with [Peduzzi1996], and what is said of a value is said by its rows. With
fewer, codes that know nothing score high: of noise in 10 codes and three factors of 10 values,
`irs/suter2019` is 0.77 for 20 rows, 0.40 for 100 and 0.33 for 200, `mcc` 0.38, 0.19 and 0.13. A
metric then warns (`FewRowsWarning`), `evaluate` once for a table; on the command line it is a note.

## What every metric takes

**An interval.** `interval=0.95` computes the metric on 200 random parts of the rows (`resamples`)
and gives the interval that holds that share of the values, moved so that their mean is the value of
all rows. Where a protocol reads n of N rows, parts have n N / (n + N) of them, half of the rows
where it reads all: without repetition they spread, to first order, as n other rows do
[Politis1994], and hold no row twice, which nearest neighbours would take for information and
held-out rows for prediction: on 600 rows of partly entangled codes the bootstrap moves InfoM by
0.22, halves by 0.004, where the interval is 0.08 wide. Fewer different rows bias many metrics,
modularity by more than it spreads; moving the mean takes that out. The interval is about the number
that the protocol gives for so many rows, and each part has its own seed: it covers rows and `rng`.

**The spread of its own randomness.** `reseeds=10` computes the metric with 10 other seeds on the
same rows; the detail "rng spread" is their standard deviation, what another seed changes, and a
column of tables and CSV.

**A null.** `null=True` gives the mean over 10 shuffles (`shuffles`) of the factors against the
codes, with the detail "null spread": what the metric says where nothing is learned. Some say much:
modularity of noise is far from 0.

**Factors that repeat.** dSprites' orientations 0 and 2 pi are the same image, and a square is the
same every quarter of a turn: no code can tell such values apart. The 40 orientations have both
ends, so a turn is 39 steps: `periods={"orientation": 39}` makes values one that are equal modulo 39
(a quarter is 9.75 steps, so squares have no two more steps that are one picture). Where a turn has
36 steps of ten degrees, `periods={"orientation": {"shape": [9, 18, 36]}}` gives the period for each
value of another factor. `Table(..., periods=...)` keeps them; `shapes2d` declares its own.

**The ceiling of a table.** Orientation that is merged by shape depends on shape: a square has
its first 9 steps only, so who knows the step knows something of the shape. Even codes that are the
merged factors themselves then score below 1 in metrics of information and of fixed factors: with 3
shapes, 36 orientations and the periods [9, 18, 36], MIG is 0.67, FactorVAE 0.91, and DCI still 1.
`ceiling=True` gives that number as the detail "ceiling", and as a column of tables and CSV; it is
1 or near it for independent factors, and tells as much of tables whose factors are correlated or
whose lattice is incomplete.

**Continuous factors.** A column of factors is continuous if it holds real numbers that do not
repeat: on average, each comes less than twice. Metrics of counts cut it into bins as they do codes
and name it in the detail "factors cut into bins"; metrics that hold a value fixed refuse. Real
numbers that repeat, such as 40 angles, are classes. What was decided is told: `Table.notes`, in the
`repr` of a table, by `unweave score`. `continuous=["angle"]` decides otherwise, for metrics,
`evaluate` and `Table`, and `--continuous angle` on the command line: the factors named or numbered
are continuous, whole numbers too, and all others are classes, so that `continuous=[]` has none. To
make classes of numbers that do not repeat, cut them into bins that many rows share, as
`numpy.digitize(column, numpy.quantile(column, [0.2, 0.4, 0.6, 0.8]))`.

**Repeatability.** The same `rng` gives the same number, up to rounding, on any machine and any
number of threads, whether an interval is asked for or not.

## All of them
"""

_SOURCE = re.compile(r"\[[A-Z][A-Za-z]+\d{4}\]")


def page() -> str:
    """All of it as Markdown."""
    lines = [["metric", "protocol", "continuous factors", "needs"], ["---"] * 4]
    by_name: dict[str, Metric] = {}
    for m in METRICS.values():
        by_name.setdefault(m.name, m)
        continuous = "no" if class_factors in m.needs else "yes"
        lines.append([f"[{m.name}](#{m.name})", m.protocol, continuous, _needs(m)])
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([_INTRODUCTION, *rows, "", *map(section, by_name.values())])


def section(metric: Metric) -> str:
    """What the docstring of a metric says, but for its arguments and example."""
    text = inspect.getdoc(metric.compute) or ""
    said, rest = text.split("\nArgs:\n")
    _, returned = rest.split("\nReturns:\n")
    returned = " ".join(returned.split(">>>")[0].split())
    options = ", ".join(f"`{name}`" for name in _options(metric))
    sources = " ".join(dict.fromkeys(_SOURCE.findall(said)))
    return (
        f"## {metric.name}\n\n{said.strip()}\n\n{returned} Options: {options}. Papers: {sources}.\n"
    )


def _options(metric: Metric) -> list[str]:
    """The keywords of its own."""
    shared = {"codes", "factors", "protocol", "rng", "discrete", "factor_names", "leave_out"}
    shared |= set(Frame.__annotations__)
    return [name for name in inspect.signature(metric.compute).parameters if name not in shared]


def _needs(metric: Metric) -> str:
    told = [(inspect.getdoc(need) or "").split("\n")[0].rstrip(".") for need in metric.needs]
    return "; ".join(text[0].lower() + text[1:] for text in told).replace("|", "\\|")
