"""Policies that learn nothing: uniformly random arms, and all arms in turn."""

import jax
from jax import Array

from jaxband import checks
from jaxband.base import record


def random(num_arms: int) -> "Random":
    """Each round an arm uniformly at random.

    >>> random(num_arms=3).num_arms
    3
    """
    return Random(checks.whole_number("num_arms", num_arms, minimum=1))


def round_robin(num_arms: int) -> "RoundRobin":
    """Arms 0, 1, …, K − 1, 0, 1, …: every arm rests K − 1 rounds.

    >>> round_robin(num_arms=3).plan(None, (), None, 7).tolist()
    [1]
    """
    return RoundRobin(checks.whole_number("num_arms", num_arms, minimum=1))


class _Stateless:
    depth = commit = 1
    warm_up = 0

    def init(self, key: Array) -> tuple:
        return ()

    def update(self, state: tuple, arm: Array, z: Array, reward: Array) -> tuple:
        return state


@record("num_arms")
class Random(_Stateless):
    num_arms: int

    def plan(self, key: Array, state: tuple, z: Array, t: Array) -> Array:
        return jax.random.randint(key, (1,), 0, self.num_arms, jax.numpy.int32)


@record("num_arms")
class RoundRobin(_Stateless):
    num_arms: int

    def plan(self, key: Array, state: tuple, z: Array, t: Array) -> Array:
        return jax.numpy.asarray(t % self.num_arms)[None]
