"""The papers' theory as functions: what can be solved, what must be equal, what is biased."""

from unweave.theory.linear import Alignment, Residuals, Solution, solve

__all__ = ["Alignment", "Residuals", "Solution", "solve"]
