"""A warm-up before any policy: its first rounds play arms 0, 1, 2, … in turn, and it learns from them."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.base import Policy, Round, State
from jaxband.policies.baselines import in_turn
from jaxband.pytree import pytree_dataclass


def with_warm_up(policy: Policy, rounds: int) -> Policy:
    """`policy`, asked to choose only after `rounds` rounds that play the arms in turn; unchanged for 0.

    >>> from jaxband.policies import random
    >>> policy, round = with_warm_up(random(num_arms=3), rounds=6), Round(4, jnp.zeros(3, int))
    >>> policy.choose(jax.random.key(0), (), round)[0].item()
    1
    """
    rounds = checks.integer("warm_up", rounds, minimum=0)
    if rounds == 0:
        return policy
    if policy.plays is not None:
        raise ValueError(f"warm_up must be 0 for a policy of {policy.plays} plays per round, got {rounds}")
    return WarmUp(policy.begin_at(rounds), rounds, first_round=0)


@pytree_dataclass(static=("rounds", "first_round"))
class WarmUp(Policy):
    policy: Policy
    rounds: int
    first_round: int

    @property
    def num_arms(self) -> int:
        return self.policy.num_arms

    @property
    def z_max(self) -> int | None:
        return self.policy.z_max

    @property
    def idle(self) -> bool:
        return self.policy.idle

    def init(self, key: Array) -> State:
        return self.policy.init(key)

    def choose(self, key, state: State, round: Round) -> tuple[Array, State]:
        t = round.t - self.first_round

        def chosen():
            arm, new = self.policy.choose(key, state, round)
            return jnp.asarray(arm, jnp.int32), new

        return jax.lax.cond(t < self.rounds, lambda: (in_turn(round._replace(t=t), self.num_arms), state), chosen)

    def update(self, state: State, round: Round, arm: Array, reward: Array) -> State:
        return self.policy.update(state, round, arm, reward)

    def draw(self, key: Array, rounds: Array):
        return self.policy.draw(key, rounds)

    def refresh(self, state: State) -> State:
        return self.policy.refresh(state)

    def inform(self, state: State, curves: Array) -> State:
        return self.policy.inform(state, curves)

    def describe(self, state: State) -> dict[str, Array]:
        return self.policy.describe(state)

    def title(self) -> str:
        return self.policy.title()

    def begin_at(self, first_round: int) -> Policy:
        later = self.policy.begin_at(first_round + self.rounds)
        return dataclasses.replace(self, policy=later, first_round=first_round)
