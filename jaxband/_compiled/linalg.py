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


@jax.custom_jvp
def inverse_and_log_determinant(matrix: Array) -> tuple[Array, Array]:
    """B⁻¹ and ln |B| of a symmetric matrix B >= I, [n, n] and scalar; by Gauss–Jordan sweeps.

    No pivot of such a matrix is below 1, so that none need be searched for. Derivatives are those of the formulas,
    dB⁻¹ = −B⁻¹ dB B⁻¹ and d ln |B| = Σ B⁻¹ ∘ dB, and never go through the loop.

    >>> inverse, log_determinant = inverse_and_log_determinant(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    >>> jnp.diag(inverse).tolist(), round(float(jnp.exp(log_determinant)), 3)
    ([0.5, 0.25], 8.0)
    """
    size = matrix.shape[0]
    index = np.arange(size)

    def sweep(j, carry):
        matrix, log_determinant = carry
        column = matrix[:, j]
        pivot = jnp.maximum(column[j], 1.0)  # below 1 by rounding only
        scaled = jnp.where(index == j, -1.0, column) / pivot
        others = matrix - scaled[:, None] * column[None, :]
        matrix = jnp.where(
            (index == j)[None, :], scaled[:, None], jnp.where((index == j)[:, None], scaled[None, :], others)
        )
        return matrix, log_determinant + jnp.log(pivot)

    swept, log_determinant = jax.lax.fori_loop(0, size, sweep, (matrix, jnp.zeros((), matrix.dtype)))
    return -swept, log_determinant


@inverse_and_log_determinant.defjvp
def _(primals, tangents):
    (change,) = tangents
    inverse, log_determinant = inverse_and_log_determinant(*primals)
    product = jnp.dot(inverse, change, precision=jax.lax.Precision.HIGHEST)
    return (inverse, log_determinant), (
        -jnp.dot(product, inverse, precision=jax.lax.Precision.HIGHEST),
        jnp.sum(inverse * change),
    )
