"""Oracles that know the curves: greedy for d = 1, else the best d-step sequence, planned again after `commit` plays."""

import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.base import Plan, Planner, record
from jaxband.planners import exhaustive
from jaxband.policies.gaussian import check_commit


def oracle(num_arms: int, z_max: int, *, planner: Planner | None = None, commit: int | None = None) -> "Oracle":
    """A policy that is shown each replication's true curves before play begins.

    >>> oracle(num_arms=10, z_max=30, planner=exhaustive(3)).depth
    3
    """
    num_arms = checks.whole_number("num_arms", num_arms, minimum=1)
    z_max = checks.whole_number("z_max", z_max, minimum=0)
    planner = exhaustive(1) if planner is None else planner
    planner.check(num_arms)
    return Oracle(planner, check_commit(commit, planner.depth), num_arms, z_max)


@record("planner", "commit", "num_arms", "z_max")
class Oracle:
    planner: Planner
    commit: int
    num_arms: int
    z_max: int

    warm_up = 0

    @property
    def depth(self) -> int:
        return self.planner.depth

    def init(self, key: Array) -> Array:
        return jnp.zeros((self.num_arms, self.z_max + 1))

    def inform(self, state: Array, curves: Array) -> Array:
        return curves

    def propose(self, key: Array, state: Array, z: Array, t: Array) -> Plan:
        return self.planner.plan(state, z)

    def plan(self, key: Array, state: Array, z: Array, t: Array) -> Array:
        return self.propose(key, state, z, t).arms[: self.commit]

    def update(self, state: Array, arm: Array, z: Array, reward: Array) -> Array:
        return state
