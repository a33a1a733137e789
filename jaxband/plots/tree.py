"""Recovery curves and the tree of all that can be played in the next rounds (Figure 1)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxband.plots.style import COLOURS, pyplot, save

MARKED = "#CC3311"


class Node(NamedTuple):
    """The rests of all arms at some round, and how they came about."""

    rests: tuple[int, ...]  # [K]
    arm: int | None = None  # played in the round before; None at the root
    reward: float = 0.0  # what that paid
    children: Sequence["Node"] = ()  # one for each arm that may be played now


def lookahead(curves: np.ndarray, root: Node, format: str = "png") -> bytes:
    """Left the curves [K, G], the root's rests marked; right the tree, its leaves with their totals, the best bold."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11.0, 4.6), layout="constrained", width_ratios=(1, 1.75))
    for arm, curve in enumerate(np.asarray(curves)):
        rest = root.rests[arm]
        left.plot(curve, color=COLOURS[arm], linewidth=1.8, label=f"arm {arm + 1}")
        left.plot(rest, curve[rest], "o", color=COLOURS[arm], markeredgecolor="black")
    left.set(title="Recovery functions", xlabel="rounds the arm has rested", ylabel="expected reward")
    left.set_xlim(0, curves.shape[1] - 1)
    left.grid(alpha=0.3)
    left.legend(frameon=False, fontsize="small", title="dots: rests now", title_fontsize="small")
    _draw_tree(right, root)
    return save(figure, format)


def _draw_tree(axis, root: Node) -> None:
    """The tree from left to right, leaves from top to bottom."""
    totals = _totals(root)
    best, depth = int(np.argmax(totals)), _depth(root)
    places = iter(range(len(totals)))

    def draw(node: Node, level: int) -> tuple[float, range]:
        """The height a node is drawn at, and which leaves are below it."""
        if node.children:
            below = [draw(child, level + 1) for child in node.children]
            height, leaves = np.mean([h for h, _ in below]), range(below[0][1].start, below[-1][1].stop)
            for child, (h, its) in zip(node.children, below, strict=True):
                _draw_edge(axis, child, (level, height), (level + 1, h), bold=best in its)
        else:
            place = next(places)
            height, leaves = -float(place), range(place, place + 1)
            weight = {"color": MARKED, "fontweight": "bold"} if place == best else {}
            axis.text(level + 0.27, height, f"{totals[place]:+.2f}", va="center", fontsize="small", **weight)
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": MARKED if best in leaves else "grey"}
        axis.text(level, height, _as_text(node.rests), ha="center", va="center", fontsize="small", bbox=box, zorder=3)
        return height, leaves

    draw(root, 0)
    for level in range(depth + 1):
        later = f"+{level}" if level else ""
        axis.text(level, 0.9, f"$\\mathbf{{Z}}_{{t{later}}}$", ha="center", va="center")
    axis.text(depth + 0.33, 0.9, "total", ha="center", va="center", fontsize="small")
    axis.set(xlim=(-0.25, depth + 0.5), ylim=(0.6 - len(totals), 1.3), title=f"All plans of {depth} plays")
    axis.axis("off")


def _draw_edge(axis, child: Node, start: tuple[float, float], end: tuple[float, float], bold: bool) -> None:
    axis.plot(*zip(start, end, strict=True), color=COLOURS[child.arm], linewidth=2.6 if bold else 1.2)
    x, y = (0.42 * a + 0.58 * b for a, b in zip(start, end, strict=True))
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    text = f"arm {child.arm + 1}: {child.reward:+.2f}"
    axis.text(x, y, text, ha="center", va="center", fontsize="small", color=COLOURS[child.arm], bbox=box)


def _totals(node: Node, so_far: float = 0.0) -> list[float]:
    """What is earned on the way to every leaf."""
    so_far += node.reward
    return [total for child in node.children for total in _totals(child, so_far)] if node.children else [so_far]


def _depth(node: Node) -> int:
    return 1 + _depth(node.children[0]) if node.children else 0


def _as_text(rests: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, rests))})"
