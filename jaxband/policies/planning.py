"""Policies that plan: a plan is made, its first plays are played, then the next is made.

`PlanningPolicy` keeps the plan; `PosteriorPolicy` plans from the posterior of all curves, and is what the
Gaussian-process policies share.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import posterior
from jaxband.base import Plan, Planner, Policy, Round, State
from jaxband.planners import slot_sets
from jaxband.posterior import Posterior


class PlanningPolicy(Policy):
    """A policy that plans every `replan_every` rounds. Subclasses define `plan`; their state has a field `plan`.

    The branch depends on t alone, so that a plan costs nothing in rounds that are played from an earlier one.
    """

    planner: Planner
    replan_every: int  # plays that are made before planning again
    first_round: int  # where the first block begins

    @property
    def plan_type(self) -> type[Plan]:
        """What `plan` returns."""
        return self.planner.plan_type

    def no_plan(self) -> Plan:
        """What the state has for a plan before there is one: arms 0, numbers NaN."""
        unknown = jnp.full((), jnp.nan, jnp.zeros(()).dtype)
        numbers = {name: unknown for name in self.plan_type._fields if name != "arms"}
        return self.plan_type(arms=jnp.zeros(self.replan_every, jnp.int32), **numbers)

    def plan(self, key, state: State, round: Round) -> Plan:
        """The whole plan, of which `choose` plays the first arms."""
        raise NotImplementedError(f"{type(self).__name__} does not define plan(key, state, round)")

    def choose(self, key, state: State, round: Round) -> tuple[Array, State]:
        if self.replan_every == 1:
            state = state._replace(plan=self._kept(self.plan(key, state, round)))
            return state.plan.arms[0], state
        slot = (round.t - self.first_round) % self.replan_every
        plan = jax.lax.cond(slot == 0, lambda: self._kept(self.plan(key, state, round)), lambda: state.plan)
        arm = plan.arms[slot]
        if round.available is not None:  # a planned arm that is not there gives way to the first of another plan
            instead = self.plan(key, state, round).arms[0].astype(jnp.int32)
            arm = jnp.where((arm >= 0) & round.available[arm], arm, instead)
        return arm, state._replace(plan=plan)

    def describe(self, state: State) -> dict[str, Array]:
        return {name: number for name, number in state.plan._asdict().items() if name != "arms"}

    def _kept(self, plan: Plan) -> Plan:
        """What the state remembers of a plan: the arms that will be played, and its numbers."""
        numbers = {n: x.astype(jnp.zeros(()).dtype) for n, x in plan._asdict().items() if n != "arms"}
        return plan._replace(arms=plan.arms[: self.replan_every].astype(jnp.int32), **numbers)


class PosteriorState(NamedTuple):
    posterior: Posterior  # of all curves
    plan: Plan  # being played


class PosteriorPolicy(PlanningPolicy):
    """A policy that plans from the posterior of all curves. Subclasses have these fields, and `plan`."""

    prior: Posterior
    noise: Array  # standard deviation the posterior assumes
    planner: Planner
    replan_every: int
    first_round: int

    @property
    def num_arms(self) -> int:
        return self.prior.counts.shape[0]

    @property
    def z_max(self) -> int:
        return self.prior.counts.shape[1] - 1

    @property
    def depth(self) -> int:
        return self.planner.depth

    def init(self, key: Array) -> PosteriorState:
        return PosteriorState(self.prior, self.no_plan())

    def update(self, state: PosteriorState, round: Round, arm: Array, reward: Array) -> PosteriorState:
        played = arm if round.available is None else jnp.maximum(arm, 0)
        seen = posterior.observe(state.posterior, played, round.z[played], reward, self.noise, compensate=False)
        if round.available is not None:  # then there may be rounds without a play, which teach nothing
            seen = jax.tree.map(lambda new, old: jnp.where(arm >= 0, new, old), seen, state.posterior)
        return state._replace(posterior=seen)

    def refresh(self, state: PosteriorState) -> PosteriorState:
        return state._replace(posterior=posterior.refresh(state.posterior, self.noise))

    def begin_at(self, first_round: int) -> Policy:
        return dataclasses.replace(self, first_round=first_round)

    def window(self, belief: Posterior, z: Array) -> tuple[Array, Array]:
        """Mean [K, 2d − 1] and root [K, 2d − 1, r] at the points within the window."""
        rests = slot_sets.rests(z, self.depth, self.z_max)
        return jnp.take_along_axis(belief.mean, rests, axis=1), posterior.root_at(belief, rests)
