"""The width α_t of the upper confidence bounds (section 5 of the paper), from logarithms: (K·G)^d overflows.

A schedule is a function of the zero-based round t of a plan, K, G and d. Two are given: the one the paper states,
and the one that produced its printed tables.
"""

import jax.numpy as jnp
from jax import Array


def as_written(t: Array, num_arms: int, num_points: int, depth: int) -> Array:
    """α_t = √(2 ln((K·G)^d (t + d − 1)²)) with t = 1, 2, …

    >>> round(as_written(0, num_arms=10, num_points=31, depth=1).item(), 4)  # √(2 ln 310)
    3.3872
    """
    last_round = jnp.asarray(t, dtype=float) + depth
    return _width(depth * (jnp.log(1.0 * num_arms) + jnp.log(1.0 * num_points)) + 2.0 * jnp.log(last_round))


def published(t: Array, num_arms: int, num_points: int, depth: int) -> Array:
    """α_t = √(2 ln((t + d − 1)² K^d (G − 1))) with t = 0, 1, … and zero where that logarithm is negative."""
    last_round = jnp.maximum(jnp.asarray(t, dtype=float) + (depth - 1), 1.0)
    return _width(depth * jnp.log(1.0 * num_arms) + jnp.log(max(num_points - 1.0, 1.0)) + 2.0 * jnp.log(last_round))


def _width(log_count: Array) -> Array:
    return jnp.sqrt(2.0 * jnp.maximum(log_count, 0.0))
