"""Run units on devices, and put together what the files keep: totals and trajectories of every metric.

Units whose policies and problems differ only in numbers run side by side with one compilation (`simulation.dispatch`).
The upper bound is a property of the environment: it is computed once for all policies that meet it.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import jax
import jaxlib
import numpy as np

import jaxband
from jaxband import registry
from jaxband.base import PolicyError
from jaxband.simulation import dispatch, guards, metrics
from jaxband.simulation.layout import default_batch_size, make_layout
from jaxband.simulation.metrics import Metric
from jaxband.simulation.upper_bounds import UpperBounds, upper_bounds
from jaxband.sweep.spec import problems, user_code
from jaxband.sweep.spec.cells import Cell
from jaxband.sweep.storage import trajectories
from jaxband.sweep.storage.units import LARGEST_UNIT, Unit, UnitResult

CELLS_KEPT = 64  # prepared ones that may be met again soon


def results(
    units: Iterable[Unit], devices: Sequence[jax.Device], ranks: Mapping[str, int] | None = None
) -> Iterator[tuple[Unit, UnitResult]]:
    """Every unit with its totals and trajectories, in the order in which they are done.

    `ranks`, by the identities of cells, are those that `compile_groups.shared_ranks` found; they change no bit.
    """
    ranks = ranks or {}
    works = (dispatch.Work(unit, _prepared(unit, ranks), unit.start, unit.stop) for unit in units)
    partial: dict[str, list[dict]] = {}
    try:
        for work, measured in dispatch.run(works, devices):
            unit = work.tag
            parts = partial.setdefault(unit.identity, [])
            parts.append({name: np.cumsum(sums, axis=1, dtype=np.float64) for name, sums in measured.sums.items()})
            if measured.stop == unit.stop:
                partial.pop(unit.identity)
                joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
                yield unit, _whole(unit, work.job.layout.checkpoints(), joined)
    except PolicyError as error:
        raise _named(error) from None


def _prepared(unit: Unit, ranks: Mapping[str, int]) -> dispatch.Job:
    try:
        return prepare(unit.cell, ranks.get(unit.cell.identity))
    except PolicyError as error:
        error.tag = unit
        raise


def _named(error: PolicyError) -> PolicyError:
    """The error of a user's code, with the cell in which it happened."""
    if isinstance(error.tag, Unit):
        values = error.tag.cell.settings
        error = PolicyError(f"cell with policy {values['policy']!r} on problem {values['problem']!r}: {error}")
    return error


def versions() -> dict[str, str]:
    """Of what the bits of a result depend on."""
    return {"jaxband": jaxband.__version__, "jax": jax.__version__, "jaxlib": jaxlib.__version__}


@functools.lru_cache(maxsize=CELLS_KEPT)
def prepare(cell: Cell, rank: int | None = None) -> dispatch.Job:
    """Policy, problem and layout of a cell. The root of the policy's posterior has `rank` columns, if given."""
    if jax.config.jax_enable_x64:
        raise ValueError("jax_enable_x64 must be off: a sweep's results are those of float32, wherever it is resumed")
    values = cell.settings
    policy, problem = cell.policy(rank), problems.build(cell.problem, values)
    guards.check_fit(policy, problem)
    size = default_batch_size(jax.devices()[0], values["num_arms"])
    layout = make_layout(values["horizon"], cell.lookahead, _measured(cell, problem.idle), batch_size=size)
    batches = min(layout.batches_per_dispatch, max(1, LARGEST_UNIT // size))
    return dispatch.make_job(policy, problem, values["seed"], layout._replace(batches_per_dispatch=batches))


def _measured(cell: Cell, idle: bool) -> tuple[Metric, ...]:
    """The metrics that a cell's program must compute."""
    wanted = set(cell.metrics) | ({"expected_reward"} if set(cell.metrics) & set(metrics.BOUND) else set())
    chosen = tuple(metric for metric in metrics.standard(idle) if metric.name in wanted)
    if metrics.LOOKAHEAD in wanted:
        chosen += (metrics.lookahead(cell.lookahead, True),)
    known = {*metrics.STANDARD, metrics.LOOKAHEAD, *metrics.BOUND}
    further = [name for name in cell.metrics if name not in known]
    for name, code in zip(further, cell.metric_code, strict=True):
        chosen += (_OwnMetric(name, user_code.function_of(code)),) if code else metrics.own((name,))
    return chosen


class _OwnMetric(Metric):
    """A user's own, whose exception is told as such."""

    def measure(self, curves, rounds):
        return user_code.guarded(f"metric {self.name!r}", super().measure, curves, rounds)


@functools.lru_cache(maxsize=1024)
def _bounds(environment: str, start: int, stop: int) -> UpperBounds:
    """The upper bounds of an environment, which is all that they depend on."""
    values, definition = json.loads(environment)
    return upper_bounds(problems.build(definition, values), values["seed"], start, stop)


def _whole(unit: Unit, checkpoints: np.ndarray, cumulative: dict[str, np.ndarray]) -> UnitResult:
    """Totals and trajectories of all metrics, from cumulative sums [replications, segments]."""
    cell = unit.cell
    if set(cell.metrics) & set(metrics.BOUND):
        bounds = _bounds(cell.environment, unit.start, unit.stop).at(checkpoints)
        against = {name: registry.entry("metric", name).factory for name in metrics.BOUND}
        cumulative |= {name: measure(cumulative["expected_reward"], bounds) for name, measure in against.items()}
    kept = trajectories.kept(cell, unit.start, unit.stop)
    return UnitResult(
        {name: cumulative[name][:, -1] for name in cell.metrics},
        {name: trajectories.at_checkpoints(cumulative[name][:kept]) for name in cell.metrics},
    )
