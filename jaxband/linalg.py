"""Small factorisations in plain JAX, for compiled loops on several devices.

LAPACK calls inside a loop that runs on several CPU devices wait for each other for ever (jaxlib 0.10.1), and cost more
than the arithmetic for matrices of this size. These batch by `vmap` and have no call in them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def triangular_factor(rows: Array) -> Array:
    """The triangular R of a QR factorisation, [n, n] from rows [m, n], m >= n; by Householder reflections.

    >>> triangular_factor(jnp.array([[3.0, 1.0], [4.0, 2.0]]))[:, 0].tolist()
    [-5.0, 0.0]
    """
    num_rows, size = rows.shape
    index = np.arange(num_rows)

    def reflect(j, rows):
        column = jnp.where(index >= j, rows[:, j], 0.0)
        length = jnp.sqrt(jnp.sum(column**2))
        towards = jnp.where(column[j] < 0, -length, length)
        normal = column + jnp.where(index == j, towards, 0.0)
        scale = 2.0 / jnp.maximum(jnp.sum(normal**2), jnp.finfo(rows.dtype).tiny)
        projection = jnp.sum(normal[:, None] * rows, axis=0)
        return rows - scale * normal[:, None] * projection[None, :]

    return jnp.triu(jax.lax.fori_loop(0, min(num_rows - 1, size), reflect, rows)[:size])


def divide_by_triangle(matrix: Array, triangle: Array) -> Array:
    """matrix @ inverse(triangle), [m, n], for an upper triangle [n, n]."""

    def solve(j, solved):
        known = jnp.sum(solved * triangle[:, j][None, :], axis=1)  # columns not solved yet are 0
        return solved.at[:, j].set((matrix[:, j] - known) / triangle[j, j])

    return jax.lax.fori_loop(0, matrix.shape[1], solve, jnp.zeros_like(matrix))
