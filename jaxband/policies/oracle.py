"""Oracles that know the curves: greedy for d = 1, else the best d-step sequence, planned again after `commit` plays.

With end values a plan also counts what the rests are worth that it leaves behind (`optimum.end_values`); they are found
once, as the curves do not change.
"""

import inspect
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxband import checks, optimum
from jaxband.base import Plan, Planner, record
from jaxband.planners import exhaustive
from jaxband.policies.gaussian import check_commit


def oracle(
    num_arms: int,
    z_max: int,
    *,
    planner: Planner | None = None,
    commit: int | None = None,
    end_values: bool = False,
) -> "Oracle":
    """A policy that is shown each replication's true curves before play begins.

    >>> oracle(num_arms=10, z_max=30, planner=exhaustive(3)).depth
    3
    """
    num_arms = checks.whole_number("num_arms", num_arms, minimum=1)
    z_max = checks.whole_number("z_max", z_max, minimum=0)
    planner = exhaustive(1) if planner is None else planner
    planner.check(num_arms)
    check_end_values(planner, end_values)
    return Oracle(planner, check_commit(commit, planner.depth), bool(end_values), num_arms, z_max)


class Known(NamedTuple):
    curves: Array  # [K, G]
    end_values: Array  # [K, G]; what rests are worth after a plan; zero without end values


@record("planner", "commit", "end_values", "num_arms", "z_max")
class Oracle:
    planner: Planner
    commit: int
    end_values: bool
    num_arms: int
    z_max: int

    warm_up = 0

    @property
    def depth(self) -> int:
        return self.planner.depth

    def init(self, key: Array) -> Known:
        nothing = jnp.zeros((self.num_arms, self.z_max + 1))
        return Known(nothing, nothing)

    def inform(self, state: Known, curves: Array) -> Known:
        if not self.end_values:
            return Known(curves, state.end_values)
        return Known(curves, optimum.end_values(curves, optimum.dual_bound(curves).price))

    def propose(self, key: Array, state: Known, z: Array, t: Array) -> Plan:
        if self.end_values:
            return self.planner.plan(state.curves, z, end_values=state.end_values)
        return self.planner.plan(state.curves, z)

    def plan(self, key: Array, state: Known, z: Array, t: Array) -> Array:
        return self.propose(key, state, z, t).arms[: self.commit]

    def update(self, state: Known, arm: Array, z: Array, reward: Array) -> Known:
        return state


def check_end_values(planner: Planner, wanted: bool) -> None:
    """Can the planner take end values?"""
    if wanted and "end_values" not in inspect.signature(planner.plan).parameters:
        raise ValueError(f"planner must take end values, got {planner}; use planners.subset, or end_values=False")
