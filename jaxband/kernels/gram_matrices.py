"""Gram matrices: the covariance of a curve on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband.kernels.base import Kernel, as_kernel


def gram(kernel: Kernel, z_max: int) -> Array:
    """The covariance of a curve on the grid {0..z_max}, [G, G].

    >>> from jaxband.kernels import Constant
    >>> gram(Constant(2.0), z_max=1).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    z_max = checks.integer("z_max", z_max, minimum=0)
    return gram_at(as_kernel(kernel), jnp.arange(z_max + 1, dtype=float))


@jax.jit
def gram_at(kernel: Kernel, x: Array) -> Array:
    """k(x_a, x_b) for all pairs of points in x, [n, n]."""
    return jax.vmap(lambda a: jax.vmap(lambda b: kernel(a, b))(x))(x)


def gram_float64(kernel: Kernel, x: np.ndarray) -> np.ndarray:
    """The same in float64 on the host, whatever JAX's default precision. The hyperparameters must be concrete."""
    cpu = jax.local_devices(backend="cpu")[0]
    with jax.ensure_compile_time_eval(), jax.enable_x64(True), jax.default_device(cpu):
        kernel = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), kernel)
        matrix = np.asarray(gram_at(kernel, np.asarray(x, np.float64)))
    if not np.isfinite(matrix).all():
        raise ValueError(f"kernel must be finite on the grid, got {matrix[~np.isfinite(matrix)][0]} from {kernel!r}")
    return matrix
