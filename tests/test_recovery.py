"""Recovery families: each equals its formula with the paper's parameters; draws have the kernel's covariance."""

import json
import re
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from scipy import stats

from jaxband import recovery
from jaxband.kernels import Linear, Matern, Periodic, SquaredExponential

THETA = json.loads(resources.files("jaxband").joinpath("experiments/theta.json").read_text())
NAN = float("nan")


@pytest.mark.parametrize("family", ["logistic", "gamma"])
@pytest.mark.parametrize("z_max", [0, 30])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])
def test_the_papers_parameters(family, z_max, dtype, tolerance):
    with jax.enable_x64(dtype == "float64"):
        curves = getattr(recovery, family)(THETA[family], z_max)
    expected = getattr(reference, family)(THETA[family], z_max)
    assert curves.shape == (10, z_max + 1) and curves.dtype == dtype
    np.testing.assert_allclose(curves, expected, rtol=tolerance, atol=tolerance)


def test_a_logistic_curve_is_half_its_height_at_the_midpoint():
    curve = recovery.logistic([[0.8, 0.5, 10.0]], 30)[0]
    assert float(curve[10]) == pytest.approx(0.4)
    assert bool(jnp.all(jnp.diff(curve) > 0.0)) and float(curve[-1]) < 0.8


def test_a_gamma_curve_peaks_at_its_height():
    """f depends on θ1 w alone: with θ1/1000 it is the same curve on a grid 1000 times finer, close to the peak."""
    exponent, rate, height = np.asarray(THETA["gamma"]).T
    theta = np.stack([exponent, rate / 1000, height], axis=1)
    with jax.enable_x64(True):
        curves = np.asarray(recovery.gamma(theta, 30_000, reflection=31_000))
    peak = 31 - exponent / rate  # z_max + 1 − θ0/θ1 with z_max = 30
    np.testing.assert_allclose(curves.argmax(axis=1) / 1000, peak, rtol=0.0, atol=5.1e-4)
    np.testing.assert_allclose(curves.max(axis=1), height, rtol=1e-6)
    np.testing.assert_allclose(curves[:, ::1000], reference.gamma(THETA["gamma"], 30), rtol=1e-10)


def test_a_large_gamma_exponent_does_not_overflow():
    curve = recovery.gamma([[80.0, 8.0, 0.7]], 30)[0]  # 31^80 is beyond float32
    assert float(curve[21]) == pytest.approx(0.7, rel=1e-4) and bool(jnp.all(jnp.isfinite(curve)))


def draws_from_one_kernel(kernel, z_max, num_arms=2, count=25_000):
    keys = jax.random.split(jax.random.key(1), count)
    return jax.jit(jax.vmap(lambda key: recovery.gp(key, kernel, num_arms, z_max)))(keys)


def draws_from_a_traced_kernel(kernel, z_max, num_arms=2, count=25_000):
    keys = jax.random.split(jax.random.key(1), count)
    draw = jax.jit(lambda kernel: jax.vmap(lambda key: recovery.gp(key, kernel, num_arms, z_max))(keys))
    return draw(kernel)


COVARIANCES = {
    "rough": (Matern(0.5, 4.0), lambda x, y: reference.matern(x, y, 0.5, 4.0)),
    "product and sum": (
        SquaredExponential(4.0) * Periodic(5.0, 1.0) + Linear(0.05),
        lambda x, y: (
            reference.squared_exponential(x, y, 4.0) * reference.periodic(x, y, 5.0, 1.0) + reference.linear(x, y, 0.05)
        ),
    ),
}


@pytest.mark.parametrize("name", COVARIANCES)
@pytest.mark.parametrize("draw", [draws_from_one_kernel, draws_from_a_traced_kernel])
def test_draws_have_the_kernels_covariance(name, draw):
    """Whitened by the reference, all arms together are N(0, I) in the directions above 1/1000 of the largest.

    N |mean|² is χ²(k), and N (tr S − ln det S − k) is χ²(k (k + 1) / 2) in the limit: false alarms 1e-4 each.
    """
    kernel, formula = COVARIANCES[name]
    eigenvalues, vectors = np.linalg.eigh(reference.gram(formula, 8))
    keep = eigenvalues > 1e-3 * eigenvalues[-1]
    draws = np.asarray(draw(kernel, 8), dtype=float)
    white = (draws @ (vectors[:, keep] / np.sqrt(eigenvalues[keep]))).reshape(len(draws), -1)
    count, k = white.shape
    scatter = white.T @ white / count
    ratio = count * (np.trace(scatter) - np.linalg.slogdet(scatter)[1] - k)
    assert count * np.sum(white.mean(axis=0) ** 2) < stats.chi2.isf(1e-4, k)
    assert ratio < stats.chi2.isf(1e-4, k * (k + 1) / 2)
    assert np.abs(draws @ vectors[:, eigenvalues < 1e-9]).max(initial=0.0) < 1e-2


def test_one_kernel_and_one_z_max_per_arm():
    arms = [SquaredExponential(1.0), SquaredExponential(1.0, variance=1e-8)]
    curves = recovery.gp(jax.random.key(0), arms, 2, [3, 6])
    assert curves.shape == (2, 7)
    np.testing.assert_allclose(curves[0, 3:], jnp.broadcast_to(curves[0, 3], (4,)), rtol=1e-5)
    assert float(jnp.abs(curves[0]).max()) > 0.1 > 1e-3 > float(jnp.abs(curves[1]).max())


def test_a_key_gives_one_draw_and_another_key_another():
    kernel = SquaredExponential(4.0)
    first, again, other = (recovery.gp(jax.random.key(seed), kernel, 3, 10) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_new_lengthscales_do_not_recompile():
    traces = []

    @jax.jit
    def draw(kernel):
        traces.append(None)
        return recovery.gp(jax.random.key(0), kernel, 2, 5)

    curves = [draw(SquaredExponential(lengthscale)) for lengthscale in (1.0, 2.0, 3.0)]
    assert len(traces) == 1 and not np.allclose(curves[0], curves[1])


def test_table_holds_the_last_value_of_a_short_row():
    curves = recovery.table([[0.0, 0.5], [0.25], [0.0, 0.5, 1.0]])
    np.testing.assert_array_equal(curves, [[0.0, 0.5, 0.5], [0.25, 0.25, 0.25], [0.0, 0.5, 1.0]])
    assert curves.dtype == jnp.float32


def test_extend_holds_each_arm_at_its_own_z_max():
    curves = jnp.asarray(np.arange(12.0).reshape(3, 4), dtype=float)
    expected = [[0.0, 0.0, 0.0, 0.0], [4.0, 5.0, 6.0, 6.0], [8.0, 9.0, 10.0, 11.0]]
    np.testing.assert_array_equal(recovery.hold_after(curves, [0, 2, 3]), expected)
    np.testing.assert_array_equal(jax.jit(recovery.hold_after)(curves, jnp.asarray([0, 2, 3])), expected)


def test_extend_and_table_agree():
    rows = [[0.5, 0.25], [0.0, 0.5, 1.0, 0.75]]
    padded = jnp.asarray([[0.5, 0.25, -1.0, -2.0], rows[1]], dtype=float)
    np.testing.assert_array_equal(recovery.hold_after(padded, [1, 3]), recovery.table(rows))


KEY, KERNEL = jax.random.key(0), SquaredExponential(2.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: recovery.logistic([[1.0, 2.0]], 3), ValueError, "theta must have shape [K, 3] = [any, 3], got [1, 2]"),
        (lambda: recovery.gamma([1.0, 2.0, 3.0], 3), ValueError, "theta must have shape [K, 3] = [any, 3], got [3]"),
        (lambda: recovery.logistic([[1.0, NAN, 2.0]], 3), ValueError, "theta must be finite, got nan"),
        (lambda: recovery.gamma([[1.0, float("inf"), 2.0]], 3), ValueError, "theta must be > 0, got inf"),
        (lambda: recovery.logistic([[1.0, 1.0, 1.0]], -1), ValueError, "z_max must be >= 0, got -1"),
        (lambda: recovery.gamma([[1.0, 1.0, 1.0]], 2.5), TypeError, "z_max must be a whole number, got 2.5"),
        (lambda: recovery.gp(KEY, KERNEL, 0, 3), ValueError, "num_arms must be >= 1, got 0"),
        (lambda: recovery.gp(KEY, KERNEL, 2, -3), ValueError, "z_max must be >= 0, got -3"),
        (lambda: recovery.gp(KEY, [KERNEL], 2, 3), ValueError, "kernel must be one kernel or 2 of them"),
        (lambda: recovery.gp(KEY, max, 2, 3), TypeError, "kernel must be a jaxband.kernels.Kernel or a number"),
        (lambda: recovery.table([]), ValueError, "rows must hold one non-empty list of values per arm"),
        (lambda: recovery.table([[0.0], []]), ValueError, "rows must hold one non-empty list of values per arm"),
        (lambda: recovery.table([0.0, 1.0]), ValueError, "rows must hold one non-empty list of values per arm"),
        (lambda: recovery.table([[0.0], [1.0, NAN]]), ValueError, "rows[1] must be finite, got nan"),
        (
            lambda: recovery.hold_after(jnp.zeros(3), [1]),
            ValueError,
            "curves must have shape [K, G] = [any, any], got [3]",
        ),
        (lambda: recovery.hold_after(jnp.zeros((2, 3)), [1]), ValueError, "z_max must have shape [K] = [2], got [1]"),
        (lambda: recovery.hold_after(jnp.zeros((2, 3)), [1, 3]), ValueError, "z_max must be in 0..2 (the grid), got 3"),
        (
            lambda: recovery.hold_after(jnp.zeros((2, 3)), [-1, 0]),
            ValueError,
            "z_max must be in 0..2 (the grid), got -1",
        ),
        (lambda: recovery.hold_after(jnp.zeros((1, 3)), [1.0]), TypeError, "z_max must hold integers, got 1.0"),
    ],
)
def test_errors_name_the_argument_and_the_value(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_z_max_may_not_be_traced():
    with pytest.raises(TypeError, match="z_max fixes a shape"):
        jax.jit(lambda z_max: recovery.gp(KEY, KERNEL, 2, z_max))(3)
