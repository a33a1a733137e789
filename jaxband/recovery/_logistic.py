"""Logistic recovery, f(z) = θ0 / (1 + exp(−θ1 (z − θ2))): height, steepness, midpoint (section 7 of the paper)."""

import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from jaxband.recovery.parametric import ParametricFamily, tabulate
from jaxband.registry import register


def logistic(theta: Array, z_max: int) -> Array:
    """Curves that rise from near 0 to θ0, [K, G], from parameters [K, 3].

    >>> logistic([[1.0, 0.5, 2.0]], z_max=4)[0, 2].item()
    0.5
    """
    return tabulate(value, theta, z_max)


def value(theta: Array, z: Array) -> Array:
    """f(z) for one arm's θ [3]."""
    return theta[0] * sigmoid(theta[1] * (jnp.asarray(z) - theta[2]))


@register("family", name="logistic")
def family(z_max: int) -> ParametricFamily:
    """For policies that know the form of the curves but not θ; heights and steepnesses in [0.1, 1], as in the paper."""
    return ParametricFamily(value, ((0.1, 1.0), (0.1, 1.0), (0.1, float(max(z_max, 1)))))
