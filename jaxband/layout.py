"""How a Monte Carlo run is cut up: rounds into segments, replications into tiles, tiles into shares and calls.

Replication r is row r % width of tile r // width; the last tile is padded. Every process runs a stretch of the tiles,
in calls of a few tiles per device. None of this changes a result: it decides speed, memory, and how often there is a
sign of progress.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from jaxband import checks

SEGMENTS = 64  # checkpoints of the cumulative curves, at most one more
LONGEST_SEGMENT = 2**10  # rounds; more segments instead, so that memory does not grow with the horizon
ROUNDS_PER_CALL = 2**19  # of one device, over all replications: some tenths of a second between two signs of progress
CPU_TILE = 64  # replications side by side; from benchmarks/rounds_per_second.py --tiles
CPU_TILE_MANY_ARMS = 16
MANY_ARMS = 64
ACCELERATOR_TILE = 1024  # a guess: wide enough to fill a GPU, never measured


class Layout(NamedTuple):
    """The shapes of a run. What the last segment plays beyond the horizon counts nothing."""

    horizon: int
    rounds_per_segment: int  # whole lookahead blocks
    num_segments: int
    lookahead: int
    repeats: bool
    watch: tuple[str, ...]
    certificate: bool  # is each replication's upper bound wanted?
    tile: int  # replications side by side
    tiles_per_call: int  # on each device

    def checkpoints(self) -> np.ndarray:
        return np.minimum(self.rounds_per_segment * np.arange(1, self.num_segments + 1), self.horizon)


def lay_out(
    horizon: int,
    lookahead: int,
    repeats: bool,
    watch: tuple[str, ...] = (),
    certificate: bool = False,
    tile: int = CPU_TILE,
) -> Layout:
    lookahead = checks.whole_number("lookahead", lookahead, minimum=1)
    tile = checks.whole_number("tile", tile, minimum=2, remedy="one lane alone is compiled to other roundings")
    blocks = math.ceil(horizon / lookahead)
    blocks_per_segment = min(math.ceil(blocks / SEGMENTS), max(1, LONGEST_SEGMENT // lookahead))
    rounds = lookahead * blocks_per_segment
    tiles_per_call = max(1, ROUNDS_PER_CALL // (tile * horizon))
    segments = math.ceil(horizon / rounds)
    return Layout(horizon, rounds, segments, lookahead, repeats, watch, certificate, tile, tiles_per_call)


def default_tile(device: jax.Device, num_arms: int) -> int:
    """Wide enough to hide the cost of starting a loop, narrow enough for the caches."""
    if device.platform != "cpu":
        return ACCELERATOR_TILE
    return CPU_TILE if num_arms < MANY_ARMS else CPU_TILE_MANY_ARMS


class Call(NamedTuple):
    """Which tiles each device runs in one call, [devices] each. They run on from device to device."""

    first: np.ndarray
    count: np.ndarray


def share(num_tiles: int, process: int, processes: int) -> range:
    """The tiles of one process: a stretch, so that replications stay in order."""
    return range(num_tiles * process // processes, num_tiles * (process + 1) // processes)


def calls(tiles: range, num_devices: int, tiles_per_call: int) -> Iterator[Call]:
    """The given tiles, a few per device at a time."""
    for start in range(tiles.start, tiles.stop, num_devices * tiles_per_call):
        now = min(tiles.stop - start, num_devices * tiles_per_call)
        count = np.full(num_devices, now // num_devices, np.int32) + (np.arange(num_devices) < now % num_devices)
        yield Call((start + np.cumsum(count) - count).astype(np.int32), count.astype(np.int32))


def in_order(results: np.ndarray, call: Call) -> np.ndarray:
    """The rows of the tiles that were run, [replications, ...], from [devices · tiles_per_call, tile, ...]."""
    by_device = results.reshape(len(call.count), -1, *results.shape[1:])
    tiles = np.concatenate([tiles[:n] for tiles, n in zip(by_device, call.count, strict=True)])
    return tiles.reshape(-1, *tiles.shape[2:])
