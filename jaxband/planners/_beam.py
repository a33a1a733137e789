"""Beam search: the best few partial plans of every length, each extended by every arm.

A partial plan is judged by what it has earned and what the rests that it leaves behind are worth. With good
terminal values (`optimum.terminal_values`) that says nearly all there is to know, and few partial plans are enough to
look far ahead: the work is K·width·depth, where the lookahead tree has K^d leaves.

Rests are named by their points in a window of one slot more than the plan has (`slot_sets`): a rest of one round more
is the next point, and a play is followed by the first gap.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._compiled.batching import batch_last, single_problem, take_flat
from jaxband.base import Plan, Planner
from jaxband.planners import slot_sets
from jaxband.registry import Cost, register

MAX_DEPTH = 64
MAX_WIDTH = 2**10
FEW = 32  # so many are found in one pass each, more by sorting
TIES = 9  # bits of rounding in what plans are worth


def _cost(values, for_bounds: bool) -> Cost:
    return Cost(0.009 * values["num_arms"] * values["depth"] * values.get("width", 16), 9.0)


@register(
    "planner",
    cost=_cost,
    example={"depth": 2},
    words={"depth": ("depth", "plays"), "width": ("width", "partial plans kept")},
)
def beam(depth: int, width: int = 16) -> "Beam":
    """A planner that keeps the `width` best partial plans of every length up to `depth`.

    >>> plan = beam(depth=2).plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[1, 2])
    >>> plan.arms.tolist(), round(plan.value.item(), 3)
    ([1, 0], 1.7)
    """
    return Beam(
        checks.integer("depth", depth, 1, MAX_DEPTH, remedy="look less far ahead"),
        checks.integer("width", width, 1, MAX_WIDTH, remedy="keep fewer partial plans"),
    )


@dataclasses.dataclass(frozen=True)
class Beam(Planner):
    depth: int
    width: int

    takes_terminal_values = plans_windows = True

    def plan(
        self,
        curves: Array,
        z: Array,
        *,
        terminal_values: Array | None = None,
        available: Array | None = None,
        plays: int | None = None,
        idle: bool = False,
    ) -> Plan:
        """A sequence of large total; terminal values count too, and guide the search. See `base.Planner`."""
        points, worth = slot_sets.extended_window_points(curves, z, self.depth, terminal_values)
        masked, worth = slot_sets.mask(points, available, idle), slot_sets.pad_for_idle(worth, available, idle)
        plan = slot_sets.unmask(self._search(masked, worth), len(points), available, idle)
        return self.shaped(plan, plays)

    def plan_window(self, points: Array, *, num_slots: Array | None = None, terminal: Array | None = None) -> Plan:
        """The same, without terminal values, from the points within the window [K, 2d − 1]."""
        if num_slots is not None or terminal is not None:
            raise TypeError("planners.beam takes neither num_slots nor terminal from a window; use plan, or subset")
        first, again = points[:, : self.depth], points[:, self.depth :]
        points = jnp.concatenate([jnp.pad(first, ((0, 0), (0, 1))), jnp.pad(again, ((0, 0), (0, 1)))], axis=1)
        return self._search(points, jnp.zeros_like(points))

    def _search(self, points: Array, worth: Array) -> Plan:
        search = single_problem(batch_last(functools.partial(beam_search, width=self.width)))
        arms, value = search(points, worth)
        whole_tree = points.shape[0] ** (self.depth - 1) <= self.width
        return Plan(arms, value, jnp.asarray(whole_tree))


class _Partial(NamedTuple):
    """Partial plans of one length, the best first, for n problems side by side."""

    value: Array  # [W, n]; earned so far, and what the rests are worth, less the best; −∞ where there are fewer than W
    point: Array  # [W, K, n]; the point at which every arm is now


def beam_search(points: Array, worth: Array, width: int) -> tuple[Array, Array]:
    """Arms [d, n] and values [n] of the best plans found; what plays pay and rests are worth: [K, 2d + 1, n]."""
    num_arms, num_points, num_problems = points.shape
    depth = num_points // 2
    after_play = depth + 1
    arms = np.arange(num_arms, dtype=np.int32)[None, :, None]
    resting = jnp.pad(worth[:, 1:] - worth[:, :-1], ((0, 0), (0, 1), (0, 0)))  # what one more round of rest adds
    playing = points + worth[:, after_play, None] - worth - resting  # and what a play adds instead
    scale = jnp.max(jnp.where(playing > -jnp.inf, jnp.abs(playing), 0.0), axis=(0, 1))

    def extend(plans: _Partial, _):
        here = num_points * arms + plans.point
        rested = plans.value + jnp.sum(_of_each_problem(resting, here), axis=1)
        children = (rested[:, None] + _of_each_problem(playing, here)).reshape(-1, num_problems)
        top = jnp.max(children, axis=0)
        best = _best(children, top, width, scale)
        parent, arm = (operation(best, np.int32(num_arms)) for operation in (jax.lax.div, jax.lax.rem))
        point = _of_each_problem(plans.point, num_arms * parent[:, None] + arms) + 1
        point = jnp.where(arms == arm[:, None], after_play, point)
        value = _of_each_problem(children, best) - top[None, :]  # small numbers, small rounding errors
        return _Partial(value, point), (parent, arm, top)

    def trace_back(plan, level):
        parent, arm, _ = level
        return _of_each_problem(parent, plan), _of_each_problem(arm, plan)

    value = jnp.full((width, num_problems), -jnp.inf, points.dtype).at[0].set(0.0)
    start = _Partial(value, jnp.zeros((width, num_arms, num_problems), jnp.int32))
    plans, levels = jax.lax.scan(extend, start, length=depth)
    _, sequence = jax.lax.scan(trace_back, jnp.zeros(num_problems, jnp.int32), levels, reverse=True)
    return sequence, jnp.sum(worth[:, 0], axis=0) + jnp.sum(levels[2], axis=0) + plans.value[0]


def _best(values: Array, top: Array, count: int, scale: Array) -> Array:
    """The rows of the `count` largest values [m, n] of every column, [count, n], the largest, `top` [n], first.

    A key is a bit pattern, that of the distance from the largest value with the row in its lowest bits, so that one
    pass finds the next row. Distances that agree to so many bits count as equal, and the first of equal ones wins. An
    offset makes equal what differs by rounding only, 6e-5 of the `scale` [n]: at the best price many plans are worth
    the same, and other programs round otherwise.
    """
    num_rows = values.shape[0]
    bits = (num_rows - 1).bit_length()
    low_bits = (1 << bits) - 1
    distance = ((top + 2.0 ** (TIES - bits) * scale)[None, :] - values).astype(jnp.float32)
    key = jax.lax.bitcast_convert_type(distance, jnp.int32) & ~low_bits | np.arange(num_rows, dtype=np.int32)[:, None]
    if count > FEW:
        return jnp.sort(key, axis=0)[:count] & low_bits
    last, rows = jnp.full((1, values.shape[1]), -1, jnp.int32), []
    for _ in range(count):
        last = jnp.min(jnp.where(key > last, key, np.iinfo(np.int32).max), axis=0, keepdims=True)
        rows.append(last & low_bits)
    return jnp.concatenate(rows)


def _of_each_problem(table: Array, index: Array) -> Array:
    """Entries of a table [..., n] at flat indices [..., n] into its other axes."""
    problem = jax.lax.broadcasted_iota(jnp.int32, index.shape, index.ndim - 1)
    return take_flat(table.reshape(-1), table.shape[-1] * index + problem)
