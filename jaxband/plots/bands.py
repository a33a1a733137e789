"""Cumulative metrics over rounds: means with percentile bands, one panel per problem."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxband.plots.style import LINES, looks, panels, plain, save
from jaxband.simulation.summaries import Band


class Lines(NamedTuple):
    """What one panel shows."""

    title: str
    lines: Sequence[tuple[str, np.ndarray, Band]]  # label, checkpoints, band
    scale: str = ""  # panels of the same scale have the same limits


def bands(shown: Sequence[Lines], ylabel: str, title: str, format: str = "png") -> bytes:
    """A panel for each: means, with the 5th to 95th percentile shaded and its edges thin.

    If there are few labels in all, each has the same colour in every panel. Panels with the same labels share a legend.
    """
    figure, axes = panels(len(shown), 5.2, 3.8)
    labels = [[label for label, _, _ in panel.lines] for panel in shown]
    everywhere = looks([label for mine in labels for label in mine])
    for axis, panel, mine in zip(axes, shown, labels, strict=True):
        look = everywhere if len(everywhere) <= LINES else looks(mine)
        for label, checkpoints, band in panel.lines:
            rounds, mean, low, high = (np.append(0, x) for x in (checkpoints, band.mean, band.p05, band.p95))
            axis.fill_between(rounds, low, high, color=look[label]["color"], alpha=0.3 / len(mine), linewidth=0)
            for edge in (low, high):
                axis.plot(rounds, edge, linewidth=0.6, alpha=0.7, **look[label])
            axis.plot(rounds, mean, label=plain(label), linewidth=1.8, zorder=3, **look[label])
        axis.set(title=plain(panel.title, 48), xlabel="round", ylabel=ylabel)
        axis.set_xlim(0, max(rounds[-1] for _, rounds, _ in panel.lines))
        axis.grid(alpha=0.3)
    _share_limits(axes, [panel.scale for panel in shown])
    if len(shown) > 1 and len({tuple(mine) for mine in labels}) == 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    else:
        for axis in axes:
            axis.legend(fontsize="small", edgecolor="none", framealpha=0.8)
    figure.suptitle(plain(title))
    return save(figure, format)


def _share_limits(axes: list, scales: list[str]) -> None:
    for scale in set(scales):
        same = [axis for axis, its in zip(axes, scales, strict=True) if its == scale]
        limits = [axis.get_ylim() for axis in same]
        for axis in same:
            axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
