"""What the parametric families share: a function f(θ, z) with bounds on θ, tabulated on the grid for every arm.

A new family is one file: its `value(theta, z)`, a `family(z_max)` that gives the bounds of θ, and one line in
`recovery/__init__.py`.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._runtime.entry_points import argument, compiled
from jaxband.registry import register_type


@dataclasses.dataclass(frozen=True)
class ParametricFamily:
    """Curves that are known up to a few parameters."""

    value: Callable[[Array, Array], Array]  # f(θ, z) from θ [p] and one rest; differentiable in θ
    bounds: tuple[tuple[float, float], ...]  # p pairs (low, high)

    def __post_init__(self):
        for low, high in self.bounds:
            if not low < high:
                raise ValueError(f"bounds must be pairs (low, high) with low < high, got ({low}, {high})")

    @functools.cached_property
    def amplitude_index(self) -> int | None:
        """The parameter that the curve is proportional to, if there is one; found by trying."""
        low, high = np.asarray(self.bounds, float).T
        places = low + np.random.default_rng(0).uniform(0.1, 0.9, (8, len(low))) * (high - low)
        with jax.ensure_compile_time_eval():
            for i in range(len(low)):
                halved = places * np.where(np.arange(len(low)) == i, 0.5, 1.0)
                whole, half = (np.stack([self.table(jnp.asarray(x), 8) for x in xs]) for xs in (places, halved))
                if np.allclose(half, 0.5 * whole, rtol=1e-4, atol=1e-6 * np.abs(whole).max()):
                    return i
        return None

    def table(self, theta: Array, num_points: int) -> Array:
        """The curve on the grid, [G], of one θ [p]."""
        return jax.vmap(self.value, in_axes=(None, 0))(theta, jnp.arange(num_points, dtype=theta.dtype))


register_type("family", ParametricFamily)


def tabulate(value: Callable[[Array, Array], Array], theta: Array, z_max: int) -> Array:
    """value(theta[j], z) for every arm j and rest z, [K, G]."""
    z_max = checks.integer("z_max", z_max, minimum=0)
    checks.shape("theta", theta, (None, 3), "[K, 3]")
    checks.finite("theta", theta)
    return _tabulate(value, argument(theta, float), z_max)


@compiled(static=("value", "z_max"))
def _tabulate(value: Callable[[Array, Array], Array], theta: Array, z_max: int) -> Array:
    grid = jnp.arange(z_max + 1, dtype=theta.dtype)
    return jax.vmap(lambda arm: jax.vmap(lambda z: value(arm, z))(grid))(theta)
