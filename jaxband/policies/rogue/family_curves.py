"""The curves of a parametric family and their derivatives, at many points at once.

A point is x = (θ − low)/(high − low), every parameter between 0 and 1. Points are arrays [p, ...], their curves
[G, ...]: what is at the back belongs to separate problems, and sums over rests run through vectors of those.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband.recovery import ParametricFamily


def value_at(family: ParametricFamily, x: Array, z: Array) -> Array:
    """f at points x [p, ...] and rests z that broadcast against [...]."""
    low, high = np.asarray(family.bounds, x.dtype).T
    flat = x.reshape(x.shape[0], -1)
    theta = low[:, None] + flat * (high - low)[:, None]
    z = jnp.broadcast_to(z, x.shape[1:]).astype(x.dtype)
    return jax.vmap(family.value, in_axes=(1, 0))(theta, z.reshape(-1)).reshape(x.shape[1:])


def values_at(family: ParametricFamily, num_points: int, x: Array) -> Array:
    """Curves [G, ...] at points x [p, ...]."""
    return jax.vmap(lambda z: value_at(family, x, z))(jnp.arange(num_points, dtype=x.dtype))


def with_slopes(function: Callable[[Array], Array], x: Array) -> tuple[Array, list[Array]]:
    """What belongs to points x [p, ...], and its derivative in each parameter."""
    values, along = jax.linearize(function, x)
    directions = np.eye(len(x), dtype=x.dtype).reshape(len(x), len(x), *[1] * (x.ndim - 1))
    return values, [along(jnp.broadcast_to(direction, x.shape)) for direction in directions]
