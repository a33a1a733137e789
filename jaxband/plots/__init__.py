"""Figures. Each function returns the bytes of a file."""

from jaxband.plots.bands import Lines, bands
from jaxband.plots.differences import Difference, differences
from jaxband.plots.heatmap import Heat, heat
from jaxband.plots.lines import budgets, cumulative, curves
from jaxband.plots.posteriors import Panel, posteriors
from jaxband.plots.style import COLOURS, png, pyplot
from jaxband.plots.tree import Node, lookahead

__all__ = [
    "COLOURS",
    "Difference",
    "Heat",
    "Lines",
    "Node",
    "Panel",
    "bands",
    "budgets",
    "cumulative",
    "curves",
    "differences",
    "heat",
    "lookahead",
    "png",
    "posteriors",
    "pyplot",
]
