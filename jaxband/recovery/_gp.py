"""Recovery curves drawn from a Gaussian process, as the paper assumes them (section 3)."""

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.kernels.base import Kernel, as_kernel, is_traced
from jaxband.kernels.gram_matrices import gram_at
from jaxband.posterior import prior, sample


def gp(key: Array, kernel: Kernel, num_arms: int, z_max: int) -> Array:
    """Independent curves f_j ~ GP(0, kernel), [K, G]. One kernel for all arms or one per arm.

    Inside `jit` a traced kernel is factored there; that costs an eigendecomposition per call.

    >>> from jaxband.kernels import SquaredExponential
    >>> gp(jax.random.key(0), SquaredExponential(lengthscale=4.0), num_arms=10, z_max=30).shape
    (10, 31)
    """
    num_arms = checks.integer("num_arms", num_arms, minimum=1)
    if not is_traced(kernel):
        return sample(key, prior(kernel, num_arms, z_max))
    z_max = checks.integer("z_max", z_max, minimum=0)
    values, vectors = jnp.linalg.eigh(gram_at(as_kernel(kernel), jnp.arange(z_max + 1, dtype=float)))
    root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :]
    shocks = jax.random.normal(key, (num_arms, z_max + 1))
    return jnp.dot(shocks, root.T, precision=jax.lax.Precision.HIGHEST)
