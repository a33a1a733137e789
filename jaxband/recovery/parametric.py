"""What the parametric families share: a function of (θ, z) tabulated on the grid for every arm."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks


def tabulate(value: Callable[[Array, Array], Array], theta: Array, z_max: int) -> Array:
    """value(theta[j], z) for every arm j and rest z, [K, G]."""
    z_max = checks.whole_number("z_max", z_max, minimum=0)
    theta = jnp.asarray(theta, dtype=float)
    checks.shape("theta", theta, (None, 3), "[K, 3]")
    checks.finite("theta", theta)
    grid = jnp.arange(z_max + 1, dtype=theta.dtype)
    return jax.vmap(lambda arm: jax.vmap(lambda z: value(arm, z))(grid))(theta)
