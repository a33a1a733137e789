"""The width α_t of the upper confidence bounds (section 5 of the paper), from logarithms: (K·G)^d overflows.

A schedule is made for K arms, G grid points and depth d, and then gives α_t for the zero-based round t of a plan. It is
a pytree of numbers, so that policies with different schedules share a compilation. Two are given: the one the paper
states, and the one that produced its printed tables.
"""

import math
from typing import Protocol

import jax.numpy as jnp
from jax import Array

from jaxband.pytree import pytree_dataclass
from jaxband.registry import register, register_type


@pytree_dataclass()
class Schedule:
    """α_t = √(2 (log_count + 2 ln(t + first_round))), with 0 for a negative logarithm."""

    log_count: Array  # the number of things to be confident about
    first_round: Array  # what t = 0 counts as

    def __call__(self, t: Array) -> Array:
        log_rounds = jnp.log(jnp.asarray(t, dtype=float) + self.first_round)
        return jnp.sqrt(2.0 * jnp.maximum(self.log_count + 2.0 * log_rounds, 0.0))


class ScheduleFactory(Protocol):
    """What makes a schedule for K arms, G grid points and depth d."""

    def __call__(self, num_arms: int, num_points: int, depth: int) -> Schedule: ...


def as_written(num_arms: int, num_points: int, depth: int) -> Schedule:
    """α_t = √(2 ln((K·G)^d (t + d − 1)²)) with t = 1, 2, …

    >>> round(as_written(num_arms=10, num_points=31, depth=1)(0).item(), 4)  # √(2 ln 310)
    3.3872
    """
    return _schedule(depth * (math.log(num_arms) + math.log(num_points)), depth)


def published(num_arms: int, num_points: int, depth: int) -> Schedule:
    """α_t = √(2 ln((t + d − 1)² K^d (G − 1))) with t = 0, 1, …"""
    log_points = math.log(num_points - 1) if num_points > 1 else -math.inf
    return _schedule(depth * math.log(num_arms) + log_points, depth - 1)


def _schedule(log_count: float, first_round: int) -> Schedule:
    return Schedule(jnp.asarray(log_count, dtype=float), jnp.asarray(first_round, dtype=float))


register_type("schedule", ScheduleFactory)
register("schedule", lambda: as_written, name="as_written")
register("schedule", lambda: published, name="published")
