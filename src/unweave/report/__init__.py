"""Reports: a self-contained page about a trained run, and charts of studies of metrics."""

from unweave.report.page import render, write_report
from unweave.report.studies import agreement_chart, save, sensitivity_chart

__all__ = [
    "agreement_chart",
    "render",
    "save",
    "sensitivity_chart",
    "write_report",
]
