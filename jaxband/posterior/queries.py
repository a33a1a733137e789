"""What a posterior says: means, variances, covariances, draws, and the few numbers that a plan needs."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._compiled import prng
from jaxband._runtime.entry_points import argument, compiled
from jaxband.posterior.state import Posterior


@compiled
def mean(posterior: Posterior) -> Array:
    """μ_j(z), [K, G]."""
    return posterior.mean


@compiled
def variance(posterior: Posterior) -> Array:
    """σ_j²(z), [K, G]; never negative."""
    return posterior.variance


def covariance(posterior: Posterior, arm: int) -> Array:
    """k_j(z, z'), [G, G]."""
    checks.indices("arm", arm, posterior.counts.shape[0], "the arms")
    return _covariance(posterior, argument(arm, np.int32))


@compiled
def _covariance(posterior: Posterior, arm: Array) -> Array:
    root = posterior.root[arm]
    return _matmul(root, root.T)


def variance_of_sum(posterior: Posterior, arm: int, z: Array) -> Array:
    """The variance of f_arm(z_1) + … + f_arm(z_n), repeats of a z allowed: ‖Σ root[z]‖², with no covariance matrix."""
    checks.indices("arm", arm, posterior.counts.shape[0], "the arms")
    checks.indices("z", z, posterior.counts.shape[1], "the grid")
    return _variance_of_sum(posterior, argument(arm, np.int32), argument(z, np.int32))


@compiled
def _variance_of_sum(posterior: Posterior, arm: Array, z: Array) -> Array:
    return jnp.sum(jnp.sum(posterior.root[arm][z], axis=0) ** 2)


@compiled
def sample(key: Array, posterior: Posterior) -> Array:
    """One joint draw of all curves, [K, G]: mean + root ε."""
    root = posterior.root
    shocks = prng.normal(key, root.shape[::2])
    return posterior.mean + jax.vmap(_matvec)(root, shocks)


def _matvec(matrix: Array, vector: Array) -> Array:
    return jnp.dot(matrix, vector, precision=jax.lax.Precision.HIGHEST)


def _matmul(left: Array, right: Array) -> Array:
    return jnp.dot(left, right, precision=jax.lax.Precision.HIGHEST)
