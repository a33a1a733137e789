"""Figures. Each function returns the bytes of a file."""

from jaxband.plots.bands import Lines, bands
from jaxband.plots.differences import Difference, differences
from jaxband.plots.heat import Heat, heat
from jaxband.plots.lines import budgets, cumulative, curves
from jaxband.plots.style import COLOURS, png, pyplot

__all__ = [
    "COLOURS",
    "Difference",
    "Heat",
    "Lines",
    "bands",
    "budgets",
    "cumulative",
    "curves",
    "differences",
    "heat",
    "png",
    "pyplot",
]
