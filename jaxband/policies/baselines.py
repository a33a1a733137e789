"""Policies that learn nothing: uniformly random arms, and all arms in turn."""

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.base import IDLE, Policy, Round
from jaxband.pytree import pytree_dataclass
from jaxband.registry import Cost, register


@register("policy", cost=lambda values: Cost(0.25 + 0.015 * values["num_arms"], 4.0), told=())
def random(num_arms: int) -> "Random":
    """Each round an available arm uniformly at random.

    >>> random(num_arms=3).num_arms
    3
    """
    return Random(checks.integer("num_arms", num_arms, minimum=1))


@register("policy", cost=lambda values: Cost(0.08 + 0.007 * values["num_arms"], 4.0), told=())
def round_robin(num_arms: int) -> "RoundRobin":
    """Arms 0, 1, …, K − 1, 0, 1, …: every arm rests K − 1 rounds. Of arms that are not available the next one.

    >>> round_robin(num_arms=3).choose(None, (), Round(7, jnp.zeros(3, int)))[0].item()
    1
    """
    return RoundRobin(checks.integer("num_arms", num_arms, minimum=1))


class _Stateless(Policy):
    def init(self, key: Array) -> tuple:
        return ()

    def update(self, state: tuple, round: Round, arm: Array, reward: Array) -> tuple:
        return state


@pytree_dataclass(static=("num_arms",))
class Random(_Stateless):
    num_arms: int

    def choose(self, key: Array, state: tuple, round: Round) -> tuple[Array, tuple]:
        if round.available is None:
            return jax.random.randint(key, (), 0, self.num_arms, jnp.int32), state
        numbers = jnp.where(round.available, jax.random.uniform(key, (self.num_arms,)), -1.0)
        return jnp.where(jnp.any(round.available), jnp.argmax(numbers).astype(jnp.int32), IDLE), state


@pytree_dataclass(static=("num_arms",))
class RoundRobin(_Stateless):
    num_arms: int

    def choose(self, key: Array, state: tuple, round: Round) -> tuple[Array, tuple]:
        return in_turn(round, self.num_arms), state


def in_turn(round: Round, num_arms: int) -> Array:
    """Arm t mod K; if it is not available, the next one that is."""
    first = round.t % num_arms
    if round.available is None:
        return first
    later = (first + jnp.arange(num_arms, dtype=jnp.int32)) % num_arms
    can = round.available[later]
    return jnp.where(jnp.any(can), later[jnp.argmax(can)], IDLE)
