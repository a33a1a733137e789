"""Exponential recovery, f(z) = θ0 (1 − exp(−θ1 z − θ2)): height, speed, and how much is left right after a play."""

import jax.numpy as jnp
from jax import Array

from jaxband.recovery.parametric import ParametricFamily, tabulate
from jaxband.registry import register


def exponential(theta: Array, z_max: int) -> Array:
    """Curves that rise ever more slowly towards θ0, [K, G], from parameters [K, 3].

    >>> exponential([[1.0, 0.5, 0.0]], z_max=4)[0, 0].item()
    0.0
    """
    return tabulate(value, theta, z_max)


def value(theta: Array, z: Array) -> Array:
    """f(z) for one arm's θ [3]."""
    return -theta[0] * jnp.expm1(-theta[1] * jnp.asarray(z) - theta[2])


@register("family", name="exponential")
def family(z_max: int) -> ParametricFamily:
    """For policies that know the form of the curves but not θ."""
    return ParametricFamily(value, ((0.1, 1.0), (0.01, 2.0), (0.0, 2.0)))
