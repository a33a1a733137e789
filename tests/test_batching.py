"""Batching rules of our own against plain indexing, lane by lane."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxband._compiled.batching import fast_max, take_flat, take_per_row

pytestmark = pytest.mark.as_users


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_look_ups_under_vmap_are_those_of_each_lane(axes, shape):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4, 7) if axes[0] == 0 else (7,)).astype(np.float32)
    index = rng.integers(0, 7, (4, *shape) if axes[1] == 0 else shape).astype(np.int32)
    found = jax.vmap(take_flat, axes)(jnp.asarray(table), jnp.asarray(index))
    expected = [(table[i] if axes[0] == 0 else table)[index[i] if axes[1] == 0 else index] for i in range(4)]
    np.testing.assert_array_equal(found, np.stack(expected))


def test_rows_under_two_vmaps():
    rng = np.random.default_rng(1)
    table, index = rng.normal(size=(2, 3, 5, 6)).astype(np.float32), rng.integers(0, 6, (2, 3, 5)).astype(np.int32)
    found = jax.jit(jax.vmap(jax.vmap(take_per_row)))(table, index)
    np.testing.assert_array_equal(found, np.take_along_axis(table, index[..., None], axis=-1)[..., 0])


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 64, 65, 100, 257])
def test_the_largest_of_any_number(size):
    values = np.random.default_rng(size).normal(size=(3, size)).astype(np.float32)
    for position in range(size):
        values[1, position] += 9.0
        np.testing.assert_array_equal(fast_max(jnp.asarray(values)), values.max(axis=1))
        values[1, position] -= 9.0
