"""Factorisations in plain JAX against NumPy's, in batches, tall, square and rank-deficient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxband._compiled import linalg, unrolled_linalg


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


def above_identity(seed, size, dtype, batch=5):
    """Symmetric matrices >= I of widely different eigenvalues, [batch, size, size]."""
    roots = np.random.default_rng(seed).normal(size=(batch, size, size)) * np.geomspace(10.0, 0.01, size)
    return (np.eye(size) + roots @ roots.mT).astype(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-4), ("float64", 1e-12)])
@pytest.mark.parametrize("size", [1, 2, 13, 31])
def test_inverse_and_log_determinant(size, dtype, tolerance):
    matrices = above_identity(0, size, dtype)
    with jax.enable_x64(dtype == "float64"):
        inverses, log_determinants = jax.jit(jax.vmap(linalg.inverse_and_log_determinant))(matrices)
        alone = linalg.inverse_and_log_determinant(jnp.asarray(matrices[1]))
    assert inverses.dtype == log_determinants.dtype == dtype
    np.testing.assert_allclose(inverses, np.linalg.inv(matrices.astype(float)), rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(log_determinants, np.linalg.slogdet(matrices.astype(float))[1], rtol=tolerance)
    np.testing.assert_allclose(alone[0], inverses[1], rtol=0.0, atol=tolerance)


def test_inverse_of_the_identity_is_exact():
    inverse, log_determinant = linalg.inverse_and_log_determinant(jnp.eye(4))
    assert np.array_equal(inverse, np.eye(4)) and log_determinant == 0.0


def test_derivatives_of_inverse_and_log_determinant_are_those_of_numpy():
    """Central differences along a symmetric direction, first and second."""
    matrix, direction = above_identity(1, 6, float, batch=2)
    direction /= np.linalg.norm(direction)
    weights = np.random.default_rng(2).normal(size=(6, 6))

    def along(step, inverse_and_log_determinant):
        inverse, log_determinant = inverse_and_log_determinant(matrix + step * direction)
        return (weights * inverse).sum() + log_determinant

    def by_numpy(step):
        return along(step, lambda matrix: (np.linalg.inv(matrix), np.linalg.slogdet(matrix)[1]))

    def by_jax(step):
        return along(step, linalg.inverse_and_log_determinant)

    h = 1e-3
    slope = (by_numpy(h) - by_numpy(-h)) / (2 * h)
    bend = (by_numpy(h) - 2 * by_numpy(0.0) + by_numpy(-h)) / h**2
    with jax.enable_x64(True):
        assert float(jax.grad(by_jax)(0.0)) == pytest.approx(slope, rel=1e-4)
        assert float(jax.grad(jax.grad(by_jax))(0.0)) == pytest.approx(bend, rel=1e-4)
        assert float(jax.jvp(by_jax, (0.0,), (1.0,))[1]) == pytest.approx(slope, rel=1e-4)


def test_small_matrices_are_solved_as_numpy_does():
    rng = np.random.default_rng(0)
    slopes, weights, right = rng.normal(size=(4, 9)), rng.uniform(0.5, 2.0, 9), rng.normal(size=4)
    triangle = unrolled_linalg.with_ridge(
        unrolled_linalg.products(list(jnp.asarray(slopes)), jnp.asarray(weights)), 0.1
    )
    dense = (slopes * weights) @ slopes.T + 0.1 * np.eye(4)
    solution = unrolled_linalg.solve(unrolled_linalg.factor(triangle), list(jnp.asarray(right)))
    np.testing.assert_allclose(solution, np.linalg.solve(dense, right), rtol=1e-4)
    assert unrolled_linalg.mean(triangle) == pytest.approx(np.trace(dense) / 4, rel=1e-5)
    free = [1.0, 0.0, 1.0, 1.0]
    fixed = dense.copy()
    fixed[1], fixed[:, 1], fixed[1, 1] = 0.0, 0.0, 1.0
    held = unrolled_linalg.solve(unrolled_linalg.factor(unrolled_linalg.held(triangle, free)), list(jnp.asarray(right)))
    np.testing.assert_allclose(held, np.linalg.solve(fixed, right), rtol=1e-4)
