"""Run units: as many side by side as there are devices, each on one device, with one compilation for all.

Units are run together if their policies and problems differ only in numbers. Their leaves are stacked, one row per
device, and each device runs its own row as `monte_carlo` would: the totals are the same to the last bit.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import jax
import jaxlib
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

import jaxband
from jaxband import interrupts
from jaxband.base import Policy
from jaxband.environment import Problem
from jaxband.layout import Layout, default_tile, lay_out
from jaxband.monte_carlo import METRICS, WHOLE_LOOPS, run_in_turn
from jaxband.sweep import build, problems, settings, trajectories
from jaxband.sweep.cells import Cell
from jaxband.sweep.units import LARGEST_UNIT, Measured, Unit

CELLS_KEPT = 64  # prepared ones that may be met again soon


class Job(NamedTuple):
    """A cell made ready to run."""

    numbers: tuple[np.ndarray, ...]  # leaves of policy, problem and key
    shape: tuple  # what is compiled for: the structure around the numbers, their shapes, and the layout

    @property
    def layout(self) -> Layout:
        return self.shape[-1]


def results(units: Iterable[Unit], devices: Sequence[jax.Device]) -> Iterator[tuple[Unit, Measured]]:
    """Every unit with its totals and trajectories, in the order in which they are done."""
    mesh, running = Mesh(np.array(devices), ("units",)), None
    parts: dict[str, list] = {}
    for call in _calls(units, len(devices)):
        started = call, _run_side_by_side(*call.arguments(), mesh)
        if running:  # the next call computes while the last one's results are taken in
            yield from _take_in(*running, parts)
        running = started
        interrupts.let_through(after=running)
    if running:
        yield from _take_in(*running, parts)


def versions() -> dict[str, str]:
    """Of what the bits of a result depend on."""
    return {"jaxband": jaxband.__version__, "jax": jax.__version__, "jaxlib": jaxlib.__version__}


def in_order(units: Iterable[Unit]) -> list[Unit]:
    """Units that may share a compilation beside each other, cells in order of their numbers."""
    return sorted(units, key=lambda unit: (structure(unit), unit.cell.sort_key(), unit.start))


def structure(unit: Unit) -> tuple[str, ...]:
    """What two units must have in common to share a compilation; a kernel's rank must be the same besides."""
    names = [name for name in settings.SETTINGS if name not in settings.NUMBERS]
    curves = "drawn" if unit.cell.problem["family"] == "gp" else "table"
    return curves, *(str(unit.cell.settings.get(name)) for name in names)


@functools.lru_cache(maxsize=CELLS_KEPT)
def prepare(cell: Cell) -> Job:
    """Policy, problem and layout of a cell."""
    if jax.config.jax_enable_x64:
        raise ValueError("jax_enable_x64 must be off: a sweep's results are those of float32, wherever it is resumed")
    values = cell.settings
    policy, problem = build.policy(values), problems.build(cell.problem, values)
    tile = default_tile(jax.devices()[0], values["num_arms"])
    layout = lay_out(values["horizon"], values["lookahead"], values.get("repeats", True), tile=tile)
    layout = layout._replace(tiles_per_call=min(layout.tiles_per_call, max(1, LARGEST_UNIT // tile)))
    if "lookahead_regret" not in cell.metrics:
        layout = layout._replace(lookahead=1)  # same segments, and so the same sums, without the best sequences
    leaves, structure = jax.tree.flatten((policy, problem, _key(values["seed"])))
    numbers = tuple(np.asarray(leaf) for leaf in leaves)
    return Job(numbers, (structure, tuple((x.shape, x.dtype.name) for x in numbers), layout))


@functools.lru_cache(maxsize=CELLS_KEPT)
def _key(seed: int) -> np.ndarray:
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


class _Call(NamedTuple):
    """One step of a batch of units: some tiles of each."""

    batch: list[tuple[Unit, Job]]
    width: int  # devices; those without a unit run nothing
    first: np.ndarray  # [devices]; tile
    count: np.ndarray  # [devices]

    def arguments(self) -> tuple:
        jobs = [job for _, job in self.batch]
        jobs += jobs[:1] * (self.width - len(jobs))
        stacked = tuple(np.stack(rows) for rows in zip(*(job.numbers for job in jobs), strict=True))
        return stacked, self.first, self.count, jobs[0].shape[0], jobs[0].layout


def _calls(units: Iterable[Unit], width: int) -> Iterator[_Call]:
    prepared = ((unit, prepare(unit.cell)) for unit in units)
    for _, alike in itertools.groupby(prepared, key=lambda pair: pair[1].shape):
        while batch := list(itertools.islice(alike, width)):
            yield from _steps(batch, width)


def _steps(batch: list[tuple[Unit, Job]], width: int) -> Iterator[_Call]:
    """The tiles of every unit of a batch, a few at a time."""
    layout = batch[0][1].layout
    first = np.array([unit.start // layout.tile for unit, _ in batch] + [0] * (width - len(batch)), np.int32)
    stop = np.array([-(-unit.stop // layout.tile) for unit, _ in batch] + [0] * (width - len(batch)), np.int32)
    while (first < stop).any():
        count = np.clip(stop - first, 0, layout.tiles_per_call).astype(np.int32)
        yield _Call(batch, width, first, count)
        first = (first + count).astype(np.int32)


@functools.partial(jax.jit, static_argnames=("structure", "layout", "mesh"), compiler_options=WHOLE_LOOPS)
def _run_side_by_side(
    numbers: tuple[Array, ...], first: Array, count: Array, structure, layout: Layout, mesh: Mesh
) -> dict[str, Array]:
    """[devices · tiles_per_call, tile, C] of every metric."""

    def one_device(numbers, first, count):
        policy, problem, key = jax.tree.unflatten(structure, [x[0] for x in numbers])
        return _metrics(policy, problem, jax.random.wrap_key_data(key), first[0], count[0], layout)

    apart = PartitionSpec("units")
    return jax.shard_map(one_device, mesh=mesh, in_specs=apart, out_specs=apart, check_vma=False)(numbers, first, count)


def _metrics(policy: Policy, problem: Problem, key: Array, first: Array, count: Array, layout: Layout):
    measured = run_in_turn(policy, problem, key, first, count, layout)
    return {name: values for name, values in measured.items() if name in METRICS}


def _take_in(call: _Call, measured: dict[str, Array], parts: dict) -> Iterator[tuple[Unit, Measured]]:
    """Add a call's results to the `parts` of its units; those that are complete come out."""
    measured = {name: np.asarray(values) for name, values in measured.items()}
    measured.setdefault("lookahead_regret", measured["instantaneous_regret"])  # one step ahead
    for device, (unit, job) in enumerate(call.batch):
        layout, count = job.layout, int(call.count[device])
        if not count:
            continue
        begin, row = int(call.first[device]) * layout.tile, device * layout.tiles_per_call
        start, stop = max(unit.start, begin), min(unit.stop, begin + count * layout.tile)
        mine = parts.setdefault(unit.identity, {name: [] for name in unit.cell.metrics})
        for name in mine:
            mine[name].append(_added_up(measured[name][row : row + count])[start - begin : stop - begin])
        if stop == unit.stop:
            yield unit, _whole(unit, {name: np.concatenate(x) for name, x in parts.pop(unit.identity).items()})


def _added_up(sums: np.ndarray) -> np.ndarray:
    """[replications, C] from sums per segment [tiles, tile, C], added up as `monte_carlo` does."""
    return np.cumsum(sums, axis=2, dtype=np.float64).reshape(-1, sums.shape[2])


def _whole(unit: Unit, cumulative: dict[str, np.ndarray]) -> Measured:
    kept = trajectories.kept(unit.cell, unit.start, unit.stop)
    return Measured(
        {name: sums[:, -1] for name, sums in cumulative.items()},
        {name: trajectories.at_checkpoints(sums[:kept]) for name, sums in cumulative.items()},
    )
