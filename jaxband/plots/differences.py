"""Paired differences between policies: a point and a confidence interval for every pair, one panel per problem."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxband.plots.style import COLOURS, panels, plain, save


class Difference(NamedTuple):
    label: str
    mean: float
    low: float
    high: float
    significant: bool


def differences(
    rows: Sequence[tuple[str, Sequence[Difference]]], xlabel: str, title: str, format: str = "png"
) -> bytes:
    """A panel per (name, differences), from top to bottom; those that are not significant are hollow and grey."""
    most = max(len(panel) for _, panel in rows)
    longest = max(len(d.label) for _, panel in rows for d in panel)
    figure, axes = panels(len(rows), 3.6 + 0.075 * longest, 1.4 + 0.28 * most)
    for axis, (name, panel) in zip(axes, rows, strict=True):
        for place, d in enumerate(panel):
            colour = COLOURS[0] if d.significant else "#767676"
            axis.plot([d.low, d.high], [place, place], color=colour, linewidth=1.6, solid_capstyle="butt")
            axis.plot(d.mean, place, "o", color=colour, markerfacecolor=colour if d.significant else "white")
        axis.axvline(0.0, color="black", linewidth=0.8)
        axis.set_yticks(range(len(panel)), [plain(d.label) for d in panel], fontsize="small")
        axis.set(title=plain(name, 48), xlabel=xlabel, ylim=(len(panel) - 0.5, -0.5))
        axis.grid(alpha=0.3, axis="x")
    figure.suptitle(plain(title))
    return save(figure, format)
