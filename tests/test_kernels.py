"""Kernels: each equals its formula, `+` and `*` nest as written, and new hyperparameters do not recompile."""

import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from jaxband import kernels
from jaxband.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Product,
    SquaredExponential,
    Stretched,
    Sum,
    gram,
)
from jaxband.kernels.gram_matrices import gram_float64

SMOOTH, ROUGH, WAVE, LINE = SquaredExponential(3.0, 2.0), Matern(0.5, 4.0), Periodic(7.0, 1.5), Linear(0.1, 5.0)


def smooth(x, y):
    return reference.squared_exponential(x, y, 3.0, 2.0)


def rough(x, y):
    return reference.matern(x, y, 0.5, 4.0)


def wave(x, y):
    return reference.periodic(x, y, 7.0, 1.5)


def line(x, y):
    return reference.linear(x, y, 0.1, 5.0)


SIMPLE = {
    "squared exponential": (SMOOTH, smooth),
    "matern 1/2": (ROUGH, rough),
    "matern 3/2": (Matern(1.5, 2.0, 3.0), lambda x, y: reference.matern(x, y, 1.5, 2.0, 3.0)),
    "matern 5/2": (Matern(2.5, 6.0, 0.5), lambda x, y: reference.matern(x, y, 2.5, 6.0, 0.5)),
    "periodic": (WAVE, wave),
    "periodic of variance 2": (Periodic(5.0, 0.8, 2.0), lambda x, y: reference.periodic(x, y, 5.0, 0.8, 2.0)),
    "linear": (LINE, line),
    "constant": (Constant(0.7), lambda x, y: reference.constant(x, y, 0.7)),
}

# Deep nests in every association: only the tree as written gives the right-hand side.
NESTED = {
    "sum": (SMOOTH + ROUGH, lambda x, y: smooth(x, y) + rough(x, y)),
    "product": (SMOOTH * WAVE, lambda x, y: smooth(x, y) * wave(x, y)),
    "a b + c": (SMOOTH * WAVE + LINE, lambda x, y: smooth(x, y) * wave(x, y) + line(x, y)),
    "a + b c": (SMOOTH + WAVE * LINE, lambda x, y: smooth(x, y) + wave(x, y) * line(x, y)),
    "(a + b) c": ((SMOOTH + WAVE) * LINE, lambda x, y: (smooth(x, y) + wave(x, y)) * line(x, y)),
    "a (b + c d)": (
        SMOOTH * (ROUGH + WAVE * LINE),
        lambda x, y: smooth(x, y) * (rough(x, y) + wave(x, y) * line(x, y)),
    ),
    "((a + b) c + d) a": (
        ((SMOOTH + ROUGH) * WAVE + LINE) * SMOOTH,
        lambda x, y: ((smooth(x, y) + rough(x, y)) * wave(x, y) + line(x, y)) * smooth(x, y),
    ),
    "(a + b) stretched": (
        Stretched(SMOOTH + WAVE, 2.5),
        lambda x, y: smooth(x / 2.5, y / 2.5) + wave(x / 2.5, y / 2.5),
    ),
    "2 a": (2.0 * SMOOTH, lambda x, y: 2.0 * smooth(x, y)),
    "a 2": (SMOOTH * 2, lambda x, y: 2.0 * smooth(x, y)),
    "a + 1": (SMOOTH + 1.0, lambda x, y: smooth(x, y) + 1.0),
    "1 + a": (1 + SMOOTH, lambda x, y: smooth(x, y) + 1.0),
    "2 a + 3 (b + 1)": (2.0 * SMOOTH + 3.0 * (WAVE + 1.0), lambda x, y: 2.0 * smooth(x, y) + 3.0 * (wave(x, y) + 1.0)),
}

ALL = {**SIMPLE, **NESTED}


def pairs(dtype, count=200):
    points = np.random.default_rng(0).uniform(-3.0, 40.0, size=(2, count)).astype(dtype)
    points[1, :10] = points[0, :10]  # the diagonal too
    return points


def values(kernel, x, y):
    return np.asarray(jax.vmap(kernel)(jnp.asarray(x), jnp.asarray(y)))


def test_the_table_has_every_kernel():
    exported = {getattr(kernels, name) for name in kernels.__all__ if isinstance(getattr(kernels, name), type)}
    assert {type(kernel) for kernel, _ in ALL.values()} == exported - {Kernel}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_equals_the_formula(name, dtype, tolerance):
    kernel, formula = ALL[name]
    x, y = pairs(dtype)
    with jax.enable_x64(dtype == "float64"):
        actual = values(kernel, x, y)
    expected = np.array([formula(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    assert actual.dtype == dtype
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("name", ALL)
def test_gram_is_the_table_on_the_grid(name):
    kernel, formula = ALL[name]
    expected = reference.gram(formula, z_max=12)
    np.testing.assert_allclose(gram(kernel, 12), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    # The host's Gram matrix is float64 in float32 mode: the posterior's root is made from it.
    np.testing.assert_allclose(gram_float64(kernel, np.arange(13)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_symmetric_and_positive_semi_definite(name):
    kernel, _ = ALL[name]
    matrix = gram_float64(kernel, pairs("float64", count=13)[0])
    eigenvalues = np.linalg.eigvalsh(matrix)
    np.testing.assert_allclose(matrix, matrix.T, rtol=0.0, atol=1e-15 * np.abs(matrix).max())
    assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]


def test_a_product_in_a_sum_is_not_a_sum_of_three():
    nested, flattened = SMOOTH * WAVE + LINE, SMOOTH + WAVE + LINE
    assert isinstance(nested, Sum) and isinstance(nested.left, Product)
    assert abs(float(nested(1.0, 4.0)) - float(flattened(1.0, 4.0))) > 0.1


@pytest.mark.parametrize("name", ALL)
def test_is_a_pytree_of_its_hyperparameters(name):
    kernel, _ = ALL[name]
    copy = jax.tree.map(lambda leaf: leaf, kernel)
    assert type(copy) is type(kernel) and jax.tree.structure(copy) == jax.tree.structure(kernel)
    assert jax.tree.leaves(copy) == jax.tree.leaves(kernel) and len(jax.tree.leaves(kernel)) > 0
    x, y = pairs("float32")
    np.testing.assert_array_equal(values(copy, x, y), values(kernel, x, y))


@pytest.mark.parametrize(
    ("kernel", "paths"),
    [
        (SMOOTH, [".lengthscale", ".variance"]),
        (ROUGH, [".lengthscale", ".variance"]),
        (WAVE, [".period", ".lengthscale", ".variance"]),
        (LINE, [".variance", ".offset"]),
        (2.0 * SMOOTH, [".left.variance", ".right.lengthscale", ".right.variance"]),
    ],
)
def test_leaves_carry_the_names_of_their_fields(kernel, paths):
    assert [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(kernel)] == paths


# One kernel per value of a hyperparameter.
FAMILIES = {
    "squared exponential": (SquaredExponential, lambda x, y, h: reference.squared_exponential(x, y, h)),
    "matern": (lambda h: Matern(1.5, h, h), lambda x, y, h: reference.matern(x, y, 1.5, h, h)),
    "periodic": (lambda h: Periodic(h, h, h), lambda x, y, h: reference.periodic(x, y, h, h, h)),
    "nest": (lambda h: h * Linear(h, h) + Constant(h), lambda x, y, h: h * reference.linear(x, y, h, h) + h),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_new_hyperparameters_do_not_recompile(name):
    build, formula = FAMILIES[name]
    chex.clear_trace_counter()
    as_argument = jax.jit(chex.assert_max_traces(lambda kernel: gram(kernel, 6), n=1))
    built_inside = jax.jit(lambda hyperparameter: gram(build(hyperparameter), 6))
    for hyperparameter in (1.5, 2.5, 4.0):
        expected = reference.gram(lambda x, y, h=hyperparameter: formula(x, y, h), 6)
        np.testing.assert_allclose(as_argument(build(hyperparameter)), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(built_inside(hyperparameter), expected, rtol=1e-5, atol=1e-5)


def test_the_smoothness_is_static():
    shapes = [jax.tree.structure(Matern(nu, 1.0)) for nu in (0.5, 1.5, 2.5)]
    assert len(set(shapes)) == 3


def test_gradients_flow_to_the_hyperparameters():
    with jax.enable_x64(True):
        slope = jax.grad(lambda l: SquaredExponential(l)(1.0, 3.0))(2.0)  # d/dl exp(−4 / 2l²) = 4/l³ exp(−2/l²)
    assert float(slope) == pytest.approx(0.5 * np.exp(-0.5), rel=1e-12)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: SquaredExponential(0.0), ValueError, "lengthscale must be > 0, got 0.0"),
        (lambda: SquaredExponential(-2.0), ValueError, "lengthscale must be > 0, got -2.0"),
        (lambda: SquaredExponential(float("nan")), ValueError, "lengthscale must be > 0, got nan"),
        (lambda: SquaredExponential(float("inf")), ValueError, "lengthscale must be > 0, got inf"),
        (lambda: SquaredExponential(1.0, variance=-1.0), ValueError, "variance must be > 0, got -1.0"),
        (lambda: SquaredExponential("five"), TypeError, "lengthscale must be > 0, got 'five'"),
        (lambda: SquaredExponential(None), TypeError, "lengthscale must be > 0, got None"),
        (lambda: Matern(1.0, 2.0), ValueError, "nu must be one of [0.5, 1.5, 2.5], got 1.0"),
        (lambda: Matern(0.5, 0.0), ValueError, "lengthscale must be > 0, got 0.0"),
        (lambda: Matern(0.5, 1.0, 0.0), ValueError, "variance must be > 0, got 0.0"),
        (lambda: Periodic(0.0, 1.0), ValueError, "period must be > 0, got 0.0"),
        (lambda: Periodic(7.0, -1.0), ValueError, "lengthscale must be > 0, got -1.0"),
        (lambda: Periodic(7.0, 1.0, float("nan")), ValueError, "variance must be > 0, got nan"),
        (lambda: Linear(variance=0.0), ValueError, "variance must be > 0, got 0.0"),
        (lambda: Linear(offset=float("nan")), ValueError, "offset must be finite, got nan"),
        (lambda: Constant(-0.5), ValueError, "variance must be > 0, got -0.5"),
        (lambda: SMOOTH + 0.0, ValueError, "variance must be > 0, got 0.0"),
        (lambda: -1.0 * SMOOTH, ValueError, "variance must be > 0, got -1.0"),
        (lambda: SMOOTH + [1.0], TypeError, "kernel must be a jaxband.kernels.Kernel or a number, got [1.0]"),
        (lambda: SMOOTH * max, TypeError, "kernel must be a jaxband.kernels.Kernel or a number, got <built-in"),
        (lambda: gram(SMOOTH, -1), ValueError, "z_max must be >= 0, got -1"),
        (lambda: gram(SMOOTH, 2.5), TypeError, "z_max must be a whole number, got 2.5"),
        (lambda: Kernel()(0.0, 1.0), TypeError, "Kernel does not define __call__(x, y)"),
    ],
)
def test_errors_name_the_argument_and_the_value(build, error, message):
    with pytest.raises(error, match=re.escape(message)):
        build()
