"""Reports: one self-contained page about what a run has learned."""

from unweave.report.page import render, write_report

__all__ = ["render", "write_report"]
