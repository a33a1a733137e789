"""Figures. Each function returns the bytes of a file."""

from jaxband.plots.lines import budgets, cumulative, curves
from jaxband.plots.style import COLOURS, png, pyplot

__all__ = ["COLOURS", "budgets", "cumulative", "curves", "png", "pyplot"]
