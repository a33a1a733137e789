"""Posteriors of recovery curves beside the truth and the rewards seen, one panel per arm."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxband.plots.style import fewer_colours, plain, pyplot, save

MEAN, TRUTH, SEEN = "#0072B2", "#CC3311", "#1A1A1A"
LEVELS = (2.5, 2.0, 1.5, 1.0, 0.5)  # half-widths of the nested bands, in standard deviations: darker where they overlap


class Panel(NamedTuple):
    """What is known about one arm."""

    mean: np.ndarray  # [G]
    deviation: np.ndarray  # [G]
    truth: np.ndarray  # [G]
    z: np.ndarray  # [n]; the rests at which the arm was played
    rewards: np.ndarray  # [n]; what it paid


def posteriors(groups: dict[str, Sequence[Panel]], title: str, columns: int, format: str = "png") -> bytes:
    """Rows of panels for every named group: mean and density blue, truth red, rewards as crosses.

    All panels have the same limits, so that arms can be compared.
    """
    lines = [
        (name, first, panels[first : first + columns])
        for name, panels in groups.items()
        for first in range(0, len(panels), columns)
    ]
    size = (1.0 + (1.6 if columns <= 5 else 1.26) * columns, 1.0 + 1.4 * len(lines))
    figure, axes = pyplot().subplots(
        len(lines), columns, figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained"
    )
    for row, (name, first, panels) in zip(axes, lines, strict=True):
        row[0].set_ylabel(plain(name), fontweight="bold")
        for unused in row[len(panels) :]:
            unused.set_visible(False)
        for arm, (axis, panel) in enumerate(zip(row, panels, strict=False), start=first + 1):
            _draw(axis, panel)
            axis.set_title(f"arm {arm}: {len(panel.z)} plays", fontsize="small", pad=3)
            axis.tick_params(labelsize="small")
            axis.grid(alpha=0.25, linewidth=0.5)
    shown = [panel for panels in groups.values() for panel in panels]
    axes[0, 0].set(
        xticks=range(0, len(shown[0].truth), 10), xlim=(-0.7, len(shown[0].truth) - 0.3), ylim=_limits(shown)
    )
    for axis in axes[-1]:
        axis.set_xlabel("rounds rested", fontsize="small")
    figure.supylabel("reward", fontsize="medium")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize="medium"
    )
    figure.suptitle(plain(title))
    return fewer_colours(save(figure, format)) if format == "png" else save(figure, format)


def _draw(axis, panel: Panel) -> None:
    rests = np.arange(len(panel.truth))
    for level in LEVELS:
        low, high = (panel.mean + sign * level * panel.deviation for sign in (-1.0, 1.0))
        axis.fill_between(rests, low, high, color=MEAN, alpha=0.15, linewidth=0)
    axis.plot(rests, panel.mean, color=MEAN, linewidth=1.6, label="posterior mean (density shaded)")
    axis.plot(rests, panel.truth, color=TRUTH, linewidth=1.2, linestyle=(0, (3, 1.2)), label="truth")
    axis.plot(panel.z, panel.rewards, "x", color=SEEN, markersize=3.2, markeredgewidth=0.6, alpha=0.6, label="rewards")


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """Room for all that is shown."""
    values = np.concatenate(
        [x for p in panels for x in (p.truth, p.rewards, p.mean - 2 * p.deviation, p.mean + 2 * p.deviation)]
    )
    margin = 0.03 * np.ptp(values)
    return float(values.min() - margin), float(values.max() + margin)
