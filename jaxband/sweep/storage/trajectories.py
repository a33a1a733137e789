"""Trajectories: what a replication's metrics had added up to after some of its rounds.

They are kept as float32 at 32 checkpoints, and only for the first replications of a cell (`Spec.trajectories`): the 5th
percentile of 512 is likely to lie between the true 4th and 6th, as near as a plot can show. So a cell of five metrics
has at most 320 kB of them, however many replications it has; totals are kept for all, in float64.
"""

import numpy as np

from jaxband.simulation.layout import make_layout
from jaxband.sweep.spec.cells import Cell

CHECKPOINTS = 32  # at most
TYPE = np.dtype("<f4")


def checkpoints(cell: Cell) -> np.ndarray:
    """Numbers of rounds, [C]; the last is the horizon."""
    layout = make_layout(cell.settings["horizon"], cell.lookahead)
    return layout.checkpoints()[_chosen(layout.num_segments)]


def kept(cell: Cell, start: int, stop: int) -> int:
    """How many of the replications start … stop − 1 have their trajectory kept."""
    return min(max(cell.trajectories - start, 0), stop - start)


def at_checkpoints(cumulative: np.ndarray) -> np.ndarray:
    """[n, C] from cumulative sums after every segment of a layout, [n, segments]."""
    return cumulative[:, _chosen(cumulative.shape[1])].astype(TYPE)


def _chosen(num_segments: int) -> np.ndarray:
    """Every so many segments, and the last."""
    every = -(-num_segments // CHECKPOINTS)
    return np.append(np.arange(every - 1, num_segments - 1, every), num_segments - 1)
