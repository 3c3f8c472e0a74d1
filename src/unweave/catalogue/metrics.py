"""The documentation page of all metrics, from the registry and their docstrings.

`docs/metrics.md` is `page()`.
"""

import inspect
import re
import textwrap

from unweave.catalogue import introduction
from unweave.catalogue.fields import one_line_each
from unweave.core.bibliography import cited, entries_for, entry_field
from unweave.core.hints import nearest
from unweave.core.text import markdown_table
from unweave.metrics.needs import class_factors
from unweave.metrics.options import SHARED_ARGUMENTS
from unweave.metrics.registry import METRICS, UNSUPERVISED, Metric, find_metrics

_SOURCE = re.compile(r"\[[A-Z][A-Za-z]+\d{4}\]")


def page() -> str:
    """Return the page as Markdown."""
    by_name: dict[str, Metric] = {}
    rows = []
    for m in METRICS.values():
        by_name.setdefault(m.name, m)
        continuous = "no" if class_factors in m.needs else "yes"
        rows.append([f"[{m.name}](#{m.name})", m.protocol, continuous, _needs(m)])
    listed = markdown_table(["metric", "protocol", "continuous factors", "needs"], rows)
    return "\n".join([introduction("metrics"), listed, *map(section, by_name.values())])


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
        "mutual_information": "I(x; z) under the exact q(z) of all observations, in nats",
        "total_correlation": "KL(q(z) || prod_v q(z_v)) of the exact q(z), in nats",
        "dimension_kl": "sum_v KL(q(z_v) || p(z_v)) of the exact q(z), in nats",
    }
    parts.append("of trained models\n" + one_line_each(of_models, width))
    return "\n".join([*parts, "`unweave metrics NAME` describes one of them.\n"])


def metric_page(name: str, width: int = 80) -> str:
    """Describe one metric: what its protocols compute and need, options, papers, and a command."""
    if ":" in name:
        chosen = list(find_metrics(name).values())
    else:
        every = (METRICS, UNSUPERVISED)
        chosen = next(filter(None, ([m for m in g.values() if m.name == name] for g in every)), [])
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
    papers = entries_for(cited(description)).items()
    titles = [f"  {key}  {entry_field(entry, 'title')}" for key, entry in papers]
    needs = [(f"  {m.protocol}\n", _indented(_needs(m) or "codes", width)) for m in chosen]
    sections = [
        f"{name}\n\n{description.strip()}",
        "Protocols, and what they need:\n\n" + "\n".join(map("".join, needs))
        if first.protocol
        else f"What it needs:\n\n{needs[0][1]}",  # a user's own function
        *(["Options in Python:\n\n" + "\n".join(options)] if options else []),
        *(["Returns:\n\n" + _indented(returns.split(">>>")[0], width)] if returns else []),
        *(["Papers:\n\n" + "\n".join(titles)] if titles else []),
        f"Example:\n\n  unweave evaluate RUN --metrics {name} --interval 0.95 --null",
    ]
    return "\n\n".join(sections) + "\n"


def names() -> list[str]:
    """Return the names of all metrics, each once."""
    return sorted({m.name for m in (*METRICS.values(), *UNSUPERVISED.values())})


def _argument(arguments: str, name: str) -> str:
    found = re.search(rf"^    {name}: (.*(?:\n {{8,}}.*)*)", arguments, re.MULTILINE)
    return found[1] if found else ""


def _indented(text: str, width: int) -> str:
    indent = "      "
    joined = " ".join(text.split())
    return textwrap.fill(joined, width, initial_indent=indent, subsequent_indent=indent)


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
    shared = {"codes", "factors", "protocol", *SHARED_ARGUMENTS}
    return [name for name in inspect.signature(metric.compute).parameters if name not in shared]


def _needs(metric: Metric) -> str:
    lines = [(inspect.getdoc(need) or "").split("\n")[0].rstrip(".") for need in metric.needs]
    needs = [line.removeprefix("Require ") for line in lines]
    return "; ".join(needs)
