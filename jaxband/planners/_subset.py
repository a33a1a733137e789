"""Exact plans by dynamic programming over slot sets (`partitions`); upper confidence bounds by `ucb_labels`."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.base import Plan
from jaxband.planners import slot_sets
from jaxband.planners.partitions import best_partition
from jaxband.planners.ucb_labels import UcbPlan, best_ucb
from jaxband.planners.window_planner import WindowPlanner
from jaxband.registry import Cost, register

MAX_DEPTH = 12  # 531,441 pairs of a slot set and a subset
MAX_CANDIDATES = 2**24  # labels times pairs


def _cost(values, for_bounds: bool) -> Cost:
    pairs = values["num_arms"] * 3 ** values["depth"]
    if for_bounds:
        return Cost(0.025 * pairs * values.get("max_labels", 16), 13.0)
    return Cost(0.008 * pairs, 7.0)


@register(
    "planner",
    cost=_cost,
    example={"depth": 2},
    words={"depth": ("depth", "plays"), "max_labels": ("labels", "per slot set, at most")},
)
def subset(depth: int, repeats: bool = True, max_labels: int = 16) -> "Subset":
    """A planner that is exact far beyond exhaustive search; without `repeats` no arm twice ("single play").

    `max_labels` bounds the work of `plan_ucb`: more of them certify more plans.

    >>> plan = subset(depth=2).plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[1, 2])
    >>> plan.arms.tolist(), round(plan.value.item(), 3)
    ([1, 0], 1.7)
    """
    remedy = "look less far ahead, or use planners.beam, which needs no table of slot sets"
    depth = checks.integer("depth", depth, 1, MAX_DEPTH, remedy=remedy)
    max_labels = checks.integer("max_labels", max_labels, 1, MAX_CANDIDATES // 3**depth, remedy="look less far ahead")
    return Subset(depth, bool(repeats), max_labels)


@dataclasses.dataclass(frozen=True)
class Subset(WindowPlanner):
    depth: int
    repeats: bool = True
    max_labels: int = 16

    ucb_plan_type = UcbPlan
    takes_terminal_values = plans_upper_bounds = True

    def check(self, num_arms: int) -> None:
        """Refuse numbers of arms that it cannot plan for."""
        slot_sets.check_single_play(self.depth, self.repeats, num_arms)

    def plan_window(self, points: Array, *, num_slots: Array | None = None, terminal: Array | None = None) -> Plan:
        """The same from the points within the window [K, 2d − 1]; only the first `num_slots` slots count, if given."""
        self.check(points.shape[0])
        worth = slot_sets.slot_set_totals(slot_sets.increments(points, num_slots))
        worth = worth if terminal is None else worth + slot_sets.terminal_totals(terminal)
        value, arms = best_partition(worth, self.repeats)
        return Plan(arms, value, jnp.asarray(True))

    def plan_ucb_window(self, mean: Array, root: Array, alpha: Array, *, extra_variance: Array = 0.0) -> UcbPlan:
        """The same from the points within the window, [K, 2d − 1] and [K, 2d − 1, r]."""
        self.check(mean.shape[0])
        eta, variance = (
            slot_sets.slot_set_totals(slot_sets.increments(mean)),
            slot_sets.slot_set_totals(slot_sets.variance_increments(root)),
        )
        return best_ucb(eta, variance, alpha, extra_variance, repeats=self.repeats, num_labels=self.max_labels)
