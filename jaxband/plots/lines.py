"""Lines over rounds, budgets and rests."""

from collections.abc import Sequence

import numpy as np

from jaxband.plots.style import COLOURS, png, pyplot


def cumulative(panels: dict[str, Sequence[tuple[str, np.ndarray, object]]], ylabel: str, title: str) -> bytes:
    """One panel per name, one line per (label, checkpoints, band): the mean, with the 5th to 95th percentile shaded."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.0), squeeze=False, layout="constrained")
    for axis, (name, lines) in zip(axes[0], panels.items(), strict=True):
        for colour, (label, checkpoints, band) in zip(COLOURS, lines, strict=False):
            rounds = np.concatenate([[0], checkpoints])
            axis.plot(rounds, _from_zero(band.mean), color=colour, label=label)
            axis.fill_between(rounds, _from_zero(band.p05), _from_zero(band.p95), color=colour, alpha=0.2, linewidth=0)
        axis.set(title=name, xlabel="round", ylabel=ylabel, xlim=(0, rounds[-1]))
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    return png(figure)


def budgets(panels: dict[str, dict]) -> bytes:
    """One column per name: reward and depth of the tree against the budget; bars: error of the gap to exact plans."""
    plt = pyplot()
    figure, axes = plt.subplots(
        2, len(panels), figsize=(4.0 * len(panels), 5.0), squeeze=False, sharex="col", layout="constrained"
    )
    for (top, bottom), (name, lines) in zip(axes.T, panels.items(), strict=True):
        top.errorbar(lines["budgets"], lines["reward"], lines["error"], color=COLOURS[0], marker="o", capsize=2)
        top.axhline(lines["exact"], color=COLOURS[1], linestyle="--", label="exact plans")
        bottom.plot(lines["budgets"], lines["depth"], color=COLOURS[2], marker="o")
        bottom.axhline(lines["deepest"], color="grey", linestyle=":", linewidth=1)
        top.set(title=name, ylabel="total reward")
        top.legend(frameon=False, fontsize="small", loc="lower right")
        bottom.set(xscale="log", xlabel="budget N (nodes per plan)", ylabel="mean depth $d_N$")
        for axis in (top, bottom):
            axis.grid(alpha=0.3)
    return png(figure)


def curves(panels: dict[str, np.ndarray]) -> bytes:
    """Recovery curves [K, G], one panel per name, one line per arm."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 3.4), squeeze=False, layout="constrained")
    for axis, (name, table) in zip(axes[0], panels.items(), strict=True):
        for arm, values in enumerate(np.asarray(table)):
            axis.plot(values, color=COLOURS[arm % 7], linestyle="-" if arm < 7 else "--", linewidth=1.3)
        axis.set(title=name, xlabel="rounds the arm has rested", ylabel="expected reward", xlim=(0, len(values) - 1))
        axis.grid(alpha=0.3)
    return png(figure)


def _from_zero(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], values])
