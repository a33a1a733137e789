"""Factorisations in plain JAX against NumPy's, in batches, tall, square and rank-deficient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxband import linalg


@pytest.mark.parametrize(("num_rows", "size"), [(1, 1), (5, 5), (9, 4), (51, 21)])
def test_triangular_factor(num_rows, size):
    rows = np.random.default_rng(0).normal(size=(7, num_rows, size)).astype(np.float32)
    rows[3, :, -1] = rows[3, :, 0]  # one of the batch has a column twice
    factor = np.asarray(jax.jit(jax.vmap(linalg.triangular_factor))(rows))
    assert not np.tril(factor, -1).any()
    np.testing.assert_allclose(factor.mT @ factor, rows.mT @ rows, atol=3e-6 * num_rows)
    for ours, matrix in zip(factor[:3], rows, strict=False):
        np.testing.assert_allclose(abs(ours), abs(np.linalg.qr(matrix, mode="r")), atol=2e-5)


def test_triangular_factor_of_widely_different_rows_keeps_the_small_ones():
    """Weights over eight orders of magnitude, where the Cholesky factor of rowsᵀ rows fails in float32."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(12, 4)) * np.geomspace(1e4, 1e-4, 12)[:, None]
    rows = np.concatenate([rows, np.eye(4)])
    expected = np.linalg.qr(rows, mode="r")
    factor = np.asarray(linalg.triangular_factor(jnp.asarray(rows, jnp.float32)))
    np.testing.assert_allclose(abs(factor[-1, -1]), abs(expected[-1, -1]), rtol=1e-3)


def test_a_zero_matrix_has_a_zero_factor():
    assert not linalg.triangular_factor(jnp.zeros((3, 2))).any()


def test_divide_by_triangle():
    rng = np.random.default_rng(0)
    triangle = np.triu(rng.normal(size=(6, 6))) + 4 * np.eye(6)
    matrix = rng.normal(size=(9, 6))
    ours = linalg.divide_by_triangle(jnp.asarray(matrix, jnp.float32), jnp.asarray(triangle, jnp.float32))
    np.testing.assert_allclose(ours @ triangle.astype(np.float32), matrix, atol=1e-5)
