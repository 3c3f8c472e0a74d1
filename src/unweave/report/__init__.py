"""Reports: self-contained pages about a run or a comparison, and charts of studies of metrics."""

from unweave.report.compare import render_comparison, write_comparison
from unweave.report.page import render, write_report
from unweave.report.studies import agreement_chart, save, sensitivity_chart

__all__ = [
    "agreement_chart",
    "render",
    "render_comparison",
    "save",
    "sensitivity_chart",
    "write_comparison",
    "write_report",
]
