"""Exact plans by dynamic programming over slot sets (`fillings`); upper confidence bounds by `labels`."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.base import Plan
from jaxband.planners import windows
from jaxband.planners.fillings import best_filling
from jaxband.planners.labels import UcbPlan, best_ucb

MAX_DEPTH = 12  # 531,441 pairs of a slot set and a subset
MAX_CANDIDATES = 2**24  # labels times pairs


def subset(depth: int, repeats: bool = True, labels: int = 16) -> "Subset":
    """A planner that is exact far beyond exhaustive search; without `repeats` no arm twice ("single play").

    `labels` bounds the work of `plan_ucb`: more of them certify more plans.

    >>> plan = subset(depth=2).plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[1, 2])
    >>> plan.arms.tolist(), round(plan.value.item(), 3)
    ([1, 0], 1.7)
    """
    remedy = "look less far ahead, or use planners.beam, which needs no table of slot sets"
    depth = checks.whole_number("depth", depth, 1, MAX_DEPTH, remedy=remedy)
    labels = checks.whole_number("labels", labels, 1, MAX_CANDIDATES // 3**depth, remedy="look less far ahead")
    return Subset(depth, bool(repeats), labels)


@dataclasses.dataclass(frozen=True)
class Subset:
    depth: int
    repeats: bool
    labels: int

    def check(self, num_arms: int) -> None:
        """Can plans be made for so many arms?"""
        windows.check_single_play(self.depth, self.repeats, num_arms)

    def plan(self, curves: Array, z: Array, *, end_values: Array | None = None) -> Plan:
        """The sequence of largest total on known or sampled curves [K, G] from rests z [K].

        `end_values` [K, G] says what each arm's rest after the plan is worth, and counts too.
        """
        points, ends = windows.within_reach(curves, z, self.depth, end_values)
        return self.plan_points(points, ends=ends)

    def plan_points(self, points: Array, num_slots: Array | None = None, ends: Array | None = None) -> Plan:
        """The same from the points within reach [K, 2d − 1]; only the first `num_slots` slots count, if given."""
        windows.check_points(points, self.depth, ends)
        self.check(points.shape[0])
        worth = windows.totals(windows.gains(points, num_slots))
        worth = worth if ends is None else worth + windows.end_totals(ends)
        value, arms = best_filling(worth, self.repeats)
        return Plan(arms, value, jnp.asarray(True))

    def plan_ucb(self, mean: Array, root: Array, z: Array, alpha: Array, *, extra_variance: Array = 0.0) -> UcbPlan:
        """The sequence of largest η + α √(ς² + extra_variance), certified or not; mean [K, G], root [K, G, r]."""
        mean, root, z = windows.ucb_inputs(mean, root, z)
        points = windows.reach(mean, z, self.depth), windows.reach(root, z, self.depth)
        return self.plan_ucb_points(*points, alpha, extra_variance=extra_variance)

    def plan_ucb_points(self, mean: Array, root: Array, alpha: Array, *, extra_variance: Array = 0.0) -> UcbPlan:
        """The same from the points within reach, [K, 2d − 1] and [K, 2d − 1, r]."""
        self.check(mean.shape[0])
        eta, variance = windows.totals(windows.gains(mean)), windows.totals(windows.variance_gains(root))
        return best_ucb(eta, variance, alpha, extra_variance, repeats=self.repeats, num_labels=self.labels)
