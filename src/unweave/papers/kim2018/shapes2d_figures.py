"""Figures of [Kim2018] drawn from the results of the study on 2D Shapes."""

from __future__ import annotations

from unweave.papers.form import Reproduction

FIGURES: tuple[Reproduction, ...] = ()
