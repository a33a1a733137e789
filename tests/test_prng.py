"""Our random numbers are those of `jax.random`, bit for bit; streams of rounds are their own, and normal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from jax.extend.random import threefry_2x32

from jaxband._compiled import prng

pytestmark = pytest.mark.as_users


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_keys_are_folded_as_jax_does(seed):
    key = jax.random.key(seed)
    for data in (0, 1, 17, 2**31 - 1, np.uint32(2**32 - 1)):
        ours, theirs = prng.fold_in(key, data), jax.random.fold_in(key, data)
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_keys_are_split_as_jax_does(seed):
    key = jax.random.key(seed)
    for count in (1, 2, 5):
        ours, theirs = prng.split(key, count), jax.random.split(key, count)
        assert ours.shape == (count,)
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))
    ours, theirs = (
        jax.jit(jax.vmap(lambda k, s=s: s(k, 5)))(jax.random.split(key, 3)) for s in (prng.split, jax.random.split)
    )
    np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


@pytest.mark.parametrize("shape", [(), (1,), (10,), (7, 24), (3, 5, 2)])
def test_normal_numbers_are_those_of_jax(shape):
    key = jax.random.key(5)
    np.testing.assert_array_equal(prng.normal(key, shape), jax.random.normal(key, shape))
    keys = jax.random.split(key, 4)
    np.testing.assert_array_equal(
        jax.vmap(lambda k: prng.normal(k, shape))(keys), jax.vmap(lambda k: jax.random.normal(k, shape))(keys)
    )


def words(key, rounds, positions):
    """JAX's own threefry of the counters (t, i)."""
    counters = jnp.concatenate([jnp.asarray(rounds), jnp.asarray(positions)]).astype(jnp.uint32)
    high, low = jnp.split(threefry_2x32(jax.random.key_data(key), counters), 2)
    return np.asarray(high), np.asarray(low)


def upper(words):
    """Their upper 23 bits as numbers in [0, 1)."""
    return (words >> 9).astype(np.float64) / 2**23


def test_numbers_of_rounds_depend_on_key_and_round_alone():
    """Longer stretches contain shorter ones."""
    key = jax.random.key(7)
    numbers = prng.normals(key, jnp.arange(40, 52, dtype=jnp.int32))
    np.testing.assert_array_equal(prng.normals(key, jnp.arange(45, 50, dtype=jnp.int32)), numbers[5:10])
    high, low = words(key, np.arange(40, 52), np.zeros(12, int))
    uniform = 2.0 * upper(high ^ low) - 1.0
    np.testing.assert_allclose(numbers, np.sqrt(2.0) * scipy.special.erfinv(uniform), rtol=1e-4, atol=1e-6)


def test_rounds_have_numbers_for_several_places():
    """More places contain fewer; place 0 has the numbers of rounds without places. Also for other kinds of keys."""
    for key in (jax.random.key(7), jax.random.key(7, impl="rbg")):
        rounds = jnp.arange(40, 52, dtype=jnp.int32)
        numbers = prng.normals(key, rounds, 3)
        assert numbers.shape == (12, 3) and len(np.unique(numbers)) == 36
        np.testing.assert_array_equal(numbers[:, 0], prng.normals(key, rounds))
        np.testing.assert_array_equal(numbers[:, :2], prng.normals(key, rounds, 2))


def test_numbers_of_places_depend_on_key_round_and_place_alone():
    key, rounds = jax.random.key(7), jnp.arange(40, 52, dtype=jnp.int32)
    np.testing.assert_array_equal(prng.normals(key, rounds[5:7], 3), prng.normals(key, rounds, 3)[5:7])
    with jax.enable_x64(True):
        np.testing.assert_array_equal(prng.normals(key, rounds[5:7], 3), prng.normals(key, rounds, 3)[5:7])


def test_pairs_of_rounds_are_box_and_mullers():
    key = jax.random.key(7)
    pairs = prng.normal_pairs(key, jnp.arange(40, 52, dtype=jnp.int32), 3)
    np.testing.assert_array_equal(prng.normal_pairs(key, jnp.arange(45, 50, dtype=jnp.int32), 3), pairs[15:30])
    high, low = words(key, np.repeat(np.arange(40, 52), 3), np.tile(np.arange(3), 12))
    radius = np.sqrt(-2.0 * np.log1p(-upper(high))) * np.where(low & 1, -1.0, 1.0)
    np.testing.assert_allclose(pairs, radius * np.exp(1j * np.pi * (upper(low) - 0.5)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(prng.first_of_pairs(pairs[:3], 5), np.concatenate([pairs[:3].real, pairs[:2].imag]))


@pytest.mark.parametrize("kind", ["one a round", "five a round", "pairs"])
def test_numbers_are_standard_normal(kind):
    """100,000 of them against the normal distribution and each other (false alarm below 1e-3 for another seed)."""
    if kind == "pairs":
        pairs = np.asarray(prng.normal_pairs(jax.random.key(8), jnp.arange(10_000, dtype=jnp.int32), 5))
        numbers = np.stack([pairs.real, pairs.imag], axis=1).ravel()
        assert abs(np.corrcoef(pairs.real**2, pairs.imag**2)[0, 1]) < 4.0 / np.sqrt(5e4)
    elif kind == "five a round":
        numbers = np.asarray(prng.normals(jax.random.key(8), jnp.arange(20_000, dtype=jnp.int32), 5)).ravel()
    else:
        numbers = np.asarray(prng.normals(jax.random.key(8), jnp.arange(100_000, dtype=jnp.int32)))
    assert scipy.stats.kstest(numbers, "norm").pvalue > 1e-3
    lagged = [np.corrcoef(numbers[:-lag], numbers[lag:])[0, 1] for lag in (1, 2, 10)]
    assert np.abs(lagged).max() < 4.0 / np.sqrt(1e5)


def test_other_kinds_of_keys_work():
    key = jax.random.key(5, impl="rbg")
    np.testing.assert_array_equal(prng.normal(key, (3,)), jax.random.normal(key, (3,)))
    folded = jax.random.key_data(prng.fold_in(key, 3)), jax.random.key_data(jax.random.fold_in(key, 3))
    np.testing.assert_array_equal(*folded)
    split = jax.random.key_data(prng.split(key, 3)), jax.random.key_data(jax.random.split(key, 3))
    np.testing.assert_array_equal(*split)
    rounds = jnp.arange(4, 6, dtype=jnp.int32)
    assert np.unique(prng.normals(key, rounds)).shape == (2,)
    assert np.unique(prng.first_of_pairs(prng.normal_pairs(key, rounds, 3), 12)).shape == (12,)
    with jax.enable_x64(True):
        key = jax.random.key(5)
        np.testing.assert_array_equal(prng.normal(key, (3,)), jax.random.normal(key, (3,)))
