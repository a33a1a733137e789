"""Heat maps: one number over two settings, one panel per policy and problem."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxband.plots.style import panels, plain, save

MOST_WRITTEN = 144  # squares of a panel that have their number written in


class Heat(NamedTuple):
    title: str
    values: np.ndarray  # [Y, X]; nan where nothing was run
    scale: str  # panels of the same scale have the same colours


def heat(
    maps: Sequence[Heat], xlabel: str, ylabel: str, xs: Sequence[str], ys: Sequence[str], *, value: str, title: str,
    format: str = "png",
) -> bytes:  # fmt: skip
    """A panel per map, whose columns are `xs` and rows `ys`; `value` says what the colours mean."""
    figure, axes = panels(len(maps), max(4.6, 0.62 * len(xs) + 1.6), max(3.2, 0.42 * len(ys) + 1.6))
    for axis, panel in zip(axes, maps, strict=True):
        known = np.concatenate([m.values[np.isfinite(m.values)] for m in maps if m.scale == panel.scale])
        image = axis.imshow(
            panel.values, cmap="cividis", vmin=known.min(), vmax=known.max(), aspect="auto", origin="lower"
        )
        axis.set(title=plain(panel.title, 40), xlabel=xlabel, ylabel=ylabel)
        axis.set_xticks(range(len(xs)), [plain(x) for x in xs], rotation=45 if max(map(len, xs)) > 6 else 0)
        axis.set_yticks(range(len(ys)), [plain(y) for y in ys])
        if panel.values.size <= MOST_WRITTEN:
            _write_numbers(axis, panel.values, image)
        figure.colorbar(image, ax=axis, label=value)
    figure.suptitle(plain(title))
    return save(figure, format)


def _write_numbers(axis, values: np.ndarray, image) -> None:
    """Each value in its square, dark on bright and bright on dark."""
    for (row, column), number in np.ndenumerate(values):
        if np.isfinite(number):
            colour = "black" if image.norm(number) > 0.55 else "white"
            axis.text(column, row, f"{number:.4g}", ha="center", va="center", color=colour, fontsize="small")
