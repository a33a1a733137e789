"""Gamma recovery, reflected in z: with w = reflection − z,  f(z) = θ2 · w^θ0 e^(−θ1 w) / ((θ0/θ1)^θ0 e^(−θ0)).

θ0 is the exponent, θ1 the rate, θ2 the height: the curve rises to θ2 at z = reflection − θ0/θ1 and falls again.
This is what the paper's experiments ran; the formula printed in its section 7 does not match its table of θ.
"""

import functools

import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.recovery.parametric import ParametricFamily, tabulate
from jaxband.registry import register


def gamma(theta: Array, z_max: int, *, reflection: float | None = None) -> Array:
    """Curves with one peak, [K, G], from parameters [K, 3]; `reflection` is z_max + 1 unless given.

    >>> round(gamma([[4.0, 0.4, 0.7]], z_max=30).max().item(), 4)  # at z = 31 − 10
    0.7
    """
    z_max = checks.integer("z_max", z_max, minimum=0)
    checks.positive("theta", theta)
    reflection = z_max + 1 if reflection is None else reflection
    if not reflection > z_max:
        raise ValueError(f"reflection must be > z_max = {z_max}, got {reflection}")
    return tabulate(family(z_max, float(reflection)).value, theta, z_max)


def value(theta: Array, z: Array, reflection: float) -> Array:
    """f(z) for one arm's θ [3]; from logarithms, as w^θ0 overflows for large θ0."""
    w = reflection - jnp.asarray(z)
    exponent, rate, height = theta
    return height * jnp.exp(exponent * (jnp.log(w) + jnp.log(rate) - jnp.log(exponent)) - rate * w + exponent)


@register("family", name="gamma")
@functools.cache  # the same function for the same reflection, so that policies built twice share a compilation
def family(z_max: int, reflection: float | None = None) -> ParametricFamily:
    """For policies that know the form of the curves but not θ, with the paper's bounds."""
    reflection = float(z_max + 1 if reflection is None else reflection)
    return ParametricFamily(functools.partial(value, reflection=reflection), ((0.1, 30.0), (0.1, 0.8), (0.1, 1.0)))
