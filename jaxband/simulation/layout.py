"""How a Monte Carlo run is cut up: rounds into segments, replications into batches, batches into dispatches.

Replication r is row r % width of batch r // width; the last batch is padded. None of this changes a result: it decides
speed, memory, and how often there is a sign of progress.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from jaxband import checks
from jaxband.simulation.metrics import Metric

SEGMENTS = 64  # checkpoints of the cumulative curves, at most one more
LONGEST_SEGMENT = 2**10  # rounds; more segments instead, so that memory does not grow with the horizon
ROUNDS_PER_DISPATCH = 2**19  # of one device, over all replications: some tenths of a second between signs of progress
CPU_BATCH = 64  # replications side by side; from benchmarks/rounds_per_second.py --batches
CPU_BATCH_MANY_ARMS = 16
MANY_ARMS = 64
ACCELERATOR_BATCH = 2**14  # so many share the cost of starting a kernel; by benchmarks/gpu_program.py, never run
ACCELERATOR_BATCH_MANY_ARMS = 2**11


class Layout(NamedTuple):
    """The shapes of a run. What the last segment plays beyond the horizon counts nothing."""

    horizon: int
    rounds_per_segment: int  # whole lookahead blocks
    num_segments: int
    metrics: tuple[Metric, ...]
    watch: tuple[str, ...]
    batch_size: int  # replications side by side
    batches_per_dispatch: int  # on each device

    def checkpoints(self) -> np.ndarray:
        return np.minimum(self.rounds_per_segment * np.arange(1, self.num_segments + 1), self.horizon)


def make_layout(
    horizon: int,
    lookahead: int = 1,
    metrics: tuple[Metric, ...] = (),
    watch: tuple[str, ...] = (),
    batch_size: int = CPU_BATCH,
) -> Layout:
    """Segments are whole blocks of `lookahead` rounds."""
    lookahead = checks.integer("lookahead", lookahead, minimum=1)
    remedy = "one lane alone is compiled to other roundings"
    batch_size = checks.integer("batch_size", batch_size, minimum=2, remedy=remedy)
    blocks = math.ceil(horizon / lookahead)
    blocks_per_segment = min(math.ceil(blocks / SEGMENTS), max(1, LONGEST_SEGMENT // lookahead))
    rounds = lookahead * blocks_per_segment
    batches_per_dispatch = max(1, ROUNDS_PER_DISPATCH // (batch_size * horizon))
    return Layout(horizon, rounds, math.ceil(horizon / rounds), metrics, watch, batch_size, batches_per_dispatch)


def default_batch_size(device: jax.Device, num_arms: int) -> int:
    """Wide enough to hide the cost of starting a loop, narrow enough for a CPU's caches or a GPU's memory."""
    if device.platform != "cpu":
        return ACCELERATOR_BATCH if num_arms < MANY_ARMS else ACCELERATOR_BATCH_MANY_ARMS
    return CPU_BATCH if num_arms < MANY_ARMS else CPU_BATCH_MANY_ARMS


def batches_of_process(num_batches: int, process: int, processes: int) -> range:
    """The batches of one process: a stretch, so that replications stay in order."""
    return range(num_batches * process // processes, num_batches * (process + 1) // processes)
