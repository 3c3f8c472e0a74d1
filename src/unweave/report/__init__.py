"""Reports: self-contained pages about a run or a comparison, and charts of studies of metrics."""

from unweave.core.lazy import public_names
from unweave.report.compare import (
    render_comparison as render_comparison,
    write_comparison as write_comparison,
)
from unweave.report.page import render as render, write_report as write_report
from unweave.report.studies import (
    agreement_chart as agreement_chart,
    save as save,
    sensitivity_chart as sensitivity_chart,
)

__all__ = public_names(__name__)
