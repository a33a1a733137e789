"""Our random numbers are those of `jax.random`, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from jax.extend.random import threefry_2x32

from jaxband import prng


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_keys_are_folded_as_jax_does(seed):
    key = jax.random.key(seed)
    for data in (0, 1, 17, 2**31 - 1, np.uint32(2**32 - 1)):
        ours, theirs = prng.fold_in(key, data), jax.random.fold_in(key, data)
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


@pytest.mark.parametrize("shape", [(), (1,), (10,), (7, 24), (3, 5, 2)])
def test_normal_numbers_are_those_of_jax(shape):
    key = jax.random.key(5)
    np.testing.assert_array_equal(prng.normal(key, shape), jax.random.normal(key, shape))
    keys = jax.random.split(key, 4)
    np.testing.assert_array_equal(
        jax.vmap(lambda k: prng.normal(k, shape))(keys), jax.vmap(lambda k: jax.random.normal(k, shape))(keys)
    )


def test_numbers_of_rounds_depend_on_key_round_and_position_alone():
    """The same by JAX's own threefry of the counters (t, i); and longer stretches contain shorter ones."""
    key = jax.random.key(7)
    numbers = prng.normals(key, jnp.arange(40, 52, dtype=jnp.int32), 3).reshape(12, 3)
    np.testing.assert_array_equal(
        prng.normals(key, jnp.arange(45, 50, dtype=jnp.int32), 3).reshape(5, 3), numbers[5:10]
    )
    counters = jnp.concatenate([jnp.repeat(jnp.arange(40, 52), 3), jnp.tile(jnp.arange(3), 12)]).astype(jnp.uint32)
    high, low = jnp.split(threefry_2x32(jax.random.key_data(key), counters), 2)
    uniform = np.asarray((high ^ low) >> 9, np.float64) / 2**23 * 2.0 - 1.0
    np.testing.assert_allclose(numbers.ravel(), np.sqrt(2.0) * scipy.special.erfinv(uniform), rtol=1e-4, atol=1e-6)


def test_numbers_are_standard_normal():
    """100,000 of them against the normal distribution (Kolmogorov-Smirnov, false alarm below 1e-3 for another seed)."""
    numbers = prng.normals(jax.random.key(8), jnp.arange(10_000, dtype=jnp.int32), 10)
    assert scipy.stats.kstest(np.asarray(numbers), "norm").pvalue > 1e-3
    lagged = np.corrcoef(numbers[:-10], numbers[10:])[0, 1], np.corrcoef(numbers[:-1], numbers[1:])[0, 1]
    assert np.abs(lagged).max() < 4.0 / np.sqrt(1e5)


def test_other_kinds_of_keys_work():
    key = jax.random.key(5, impl="rbg")
    np.testing.assert_array_equal(prng.normal(key, (3,)), jax.random.normal(key, (3,)))
    folded = jax.random.key_data(prng.fold_in(key, 3)), jax.random.key_data(jax.random.fold_in(key, 3))
    np.testing.assert_array_equal(*folded)
    rounds = jnp.arange(4, 6, dtype=jnp.int32)
    assert np.unique(prng.normals(key, rounds, 3)).shape == (6,)
    with jax.enable_x64(True):
        key = jax.random.key(5)
        np.testing.assert_array_equal(prng.normal(key, (3,)), jax.random.normal(key, (3,)))
