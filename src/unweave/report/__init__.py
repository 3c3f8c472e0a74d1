"""Reports: one self-contained page about what a run has learned, and drawings of studies."""

from unweave.report.page import render, write_report
from unweave.report.studies import agreement_chart, save, sensitivity_chart

__all__ = [
    "agreement_chart",
    "render",
    "save",
    "sensitivity_chart",
    "write_report",
]
