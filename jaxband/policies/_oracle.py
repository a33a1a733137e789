"""Oracles that know the curves: greedy for d = 1, else the best d-step plan, made again after `replan_every` plays.

With terminal values a plan also counts what the rests are worth that it leaves behind (`optimum.terminal_values`); they
are found once, as the curves do not change.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxband import checks, optimum
from jaxband.base import Plan, Planner, Policy, Round
from jaxband.planners import exhaustive
from jaxband.policies import costs
from jaxband.policies.arguments import check_planner, check_replan_every, check_terminal_values
from jaxband.policies.planning import PlanningPolicy
from jaxband.pytree import pytree_dataclass
from jaxband.registry import Cost, register


def _cost(values) -> Cost:
    planned = costs.planning(values)
    return Cost(0.07 + 0.013 * values["num_arms"] + planned.round, planned.compile)


@register("policy", cost=_cost, defaults={"planner": "exhaustive", "depth": 1}, told=("curves",))
def oracle(
    num_arms: int,
    z_max: int,
    *,
    planner: Planner | None = None,
    replan_every: int | None = None,
    terminal_values: bool = False,
) -> "Oracle":
    """A policy that is shown each replication's true curves before play begins.

    >>> oracle(num_arms=10, z_max=30, planner=exhaustive(3)).replan_every
    3
    """
    num_arms = checks.integer("num_arms", num_arms, minimum=1)
    z_max = checks.integer("z_max", z_max, minimum=0)
    planner = check_planner(exhaustive(1) if planner is None else planner, num_arms)
    terminal_values = check_terminal_values(planner, terminal_values)
    return Oracle(planner, check_replan_every(replan_every, planner.depth), terminal_values, num_arms, z_max)


class OracleState(NamedTuple):
    curves: Array  # [K, G]
    terminal_values: Array  # [K, G]; what rests are worth after a plan; zero without terminal values
    plan: Plan  # being played


@pytree_dataclass(static=("planner", "replan_every", "terminal_values", "num_arms", "z_max", "first_round"))
class Oracle(PlanningPolicy):
    planner: Planner
    replan_every: int
    terminal_values: bool
    num_arms: int
    z_max: int
    first_round: int = 0

    def init(self, key: Array) -> OracleState:
        nothing = jnp.zeros((self.num_arms, self.z_max + 1))
        return OracleState(nothing, nothing, self.no_plan())

    def inform(self, state: OracleState, curves: Array) -> OracleState:
        if not self.terminal_values:
            return state._replace(curves=curves)
        values = optimum.terminal_values(curves, optimum.dual_bound(curves).price)
        return state._replace(curves=curves, terminal_values=values)

    def plan(self, key, state: OracleState, round: Round) -> Plan:
        after = state.terminal_values if self.terminal_values else None
        return self.planner.plan(state.curves, round.z, terminal_values=after, available=round.available)

    def update(self, state: OracleState, round: Round, arm: Array, reward: Array) -> OracleState:
        return state

    def begin_at(self, first_round: int) -> Policy:
        return dataclasses.replace(self, first_round=first_round)
