"""Beam search: the best few partial plans of every length, each extended by every arm.

A partial plan is judged by what it has earned and what the rests that it leaves behind are worth. With good end values
(`optimum.end_values`) that says nearly all there is to know, and few partial plans are enough to look far ahead: the
work is K·width·depth, where the lookahead tree has K^d leaves.

Rests are named by their points in a window of one slot more than the plan has (`windows`): a rest of one round more is
the next point, and a play is followed by the first gap.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband.base import Plan
from jaxband.lanes import alone, look_up, side_by_side
from jaxband.planners import windows

MAX_DEPTH = 64
MAX_WIDTH = 2**10
FEW = 32  # so many are found in one pass each, more by sorting


def beam(depth: int, width: int = 16) -> "Beam":
    """A planner that keeps the `width` best partial plans of every length up to `depth`.

    >>> plan = beam(depth=2).plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[1, 2])
    >>> plan.arms.tolist(), round(plan.value.item(), 3)
    ([1, 0], 1.7)
    """
    return Beam(
        checks.whole_number("depth", depth, 1, MAX_DEPTH, remedy="look less far ahead"),
        checks.whole_number("width", width, 1, MAX_WIDTH, remedy="keep fewer partial plans"),
    )


@dataclasses.dataclass(frozen=True)
class Beam:
    depth: int
    width: int

    repeats = True

    def check(self, num_arms: int) -> None:
        """Any number of arms will do."""

    def plan(self, curves: Array, z: Array, *, end_values: Array | None = None) -> Plan:
        """A sequence of large total on known or sampled curves [K, G] from rests z [K].

        `end_values` [K, G] says what each arm's rest after the plan is worth. It counts too, and guides the search.
        """
        points, worth = windows.within_longer_reach(curves, z, self.depth, end_values)
        return self._search(points, worth)

    def plan_points(self, points: Array) -> Plan:
        """The same, without end values, from the points within reach [K, 2d − 1]."""
        windows.check_points(points, self.depth)
        first, again = points[:, : self.depth], points[:, self.depth :]
        points = jnp.concatenate([jnp.pad(first, ((0, 0), (0, 1))), jnp.pad(again, ((0, 0), (0, 1)))], axis=1)
        return self._search(points, jnp.zeros_like(points))

    def _search(self, points: Array, worth: Array) -> Plan:
        search = alone(side_by_side(functools.partial(best_sequence, width=self.width)))
        arms, value = search(points, worth)
        whole_tree = points.shape[0] ** (self.depth - 1) <= self.width
        return Plan(arms, value, jnp.asarray(whole_tree))


class _Partial(NamedTuple):
    """Partial plans of one length, the best first, for n problems side by side."""

    value: Array  # [W, n]; earned so far, and what the rests are worth; −∞ where there are fewer than W plans
    point: Array  # [W, K, n]; the point at which every arm is now


def best_sequence(points: Array, worth: Array, width: int) -> tuple[Array, Array]:
    """Arms [d, n] and values [n] of the best plans found; what plays pay and rests are worth: [K, 2d + 1, n]."""
    num_arms, num_points, num_problems = points.shape
    depth = num_points // 2
    after_play = depth + 1
    arms = np.arange(num_arms, dtype=np.int32)[None, :, None]
    resting = jnp.pad(worth[:, 1:] - worth[:, :-1], ((0, 0), (0, 1), (0, 0)))  # what one more round of rest adds
    playing = points + worth[:, after_play, None] - worth - resting  # and what a play adds instead

    def extend(plans: _Partial, _):
        here = num_points * arms + plans.point
        rested = plans.value + jnp.sum(_of_each_problem(resting, here), axis=1)
        children = (rested[:, None] + _of_each_problem(playing, here)).reshape(-1, num_problems)
        best = _best(children, width)
        parent, arm = (operation(best, np.int32(num_arms)) for operation in (jax.lax.div, jax.lax.rem))
        point = _of_each_problem(plans.point, num_arms * parent[:, None] + arms) + 1
        point = jnp.where(arms == arm[:, None], after_play, point)
        return _Partial(_of_each_problem(children, best), point), (parent, arm)

    def trace_back(plan, level):
        parent, arm = level
        return _of_each_problem(parent, plan), _of_each_problem(arm, plan)

    value = jnp.full((width, num_problems), -jnp.inf, points.dtype).at[0].set(jnp.sum(worth[:, 0], axis=0))
    start = _Partial(value, jnp.zeros((width, num_arms, num_problems), jnp.int32))
    plans, levels = jax.lax.scan(extend, start, length=depth)
    _, sequence = jax.lax.scan(trace_back, jnp.zeros(num_problems, jnp.int32), levels, reverse=True)
    return sequence, plans.value[0]


def _best(values: Array, count: int) -> Array:
    """The rows of the `count` largest values [m, n] of every column, [count, n], the largest first.

    A key is a bit pattern, that of the distance from the largest value with the row in its lowest bits, so that one
    pass finds the next row. Distances that agree to so many bits count as equal, and the first of equal ones wins.
    """
    num_rows = values.shape[0]
    low_bits = (1 << (num_rows - 1).bit_length()) - 1
    distance = (jnp.max(values, axis=0, keepdims=True) - values).astype(jnp.float32)
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
    return look_up(table.reshape(-1), table.shape[-1] * index + problem)
