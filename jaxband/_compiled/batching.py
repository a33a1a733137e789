"""What `vmap` makes slow on CPUs, done another way: conditions of loops, look-ups in tables, maxima, short sums."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

LONGEST_REDUCTION = 32  # numbers that XLA reduces in one go


def any_over_batch(wanted: Array) -> Array:
    """`wanted`; under `vmap`, whether any lane wants it; on GPUs always true.

    For conditions of `while_loop`: one that differs between lanes makes XLA select between the old and the new state,
    all of it, in every step. With this one the body runs on for all lanes and must leave a finished one as it is. The
    other condition must be a number of steps: on GPUs it is the only one, as the host would have to wait for this.
    """
    return jax.lax.platform_dependent(_any_over_batch(wanted), cpu=lambda any_lane: any_lane, default=jnp.ones_like)


@jax.custom_batching.custom_vmap
def _any_over_batch(wanted: Array) -> Array:
    return wanted


@_any_over_batch.def_vmap
def _any_over_batch_batched(axis_size, in_batched, wanted):
    return _any_over_batch(jnp.any(wanted)), False


def take_per_row(table: Array, index: Array) -> Array:
    """Entry index[k] of every row k of a table [K, n], [K]. Indices must be in range."""
    num_rows, size = table.shape
    return take_flat(table.reshape(-1), size * np.arange(num_rows, dtype=index.dtype) + index)


@jax.custom_batching.custom_vmap
def take_flat(table: Array, index: Array) -> Array:
    """Entries of a flat table [n] at indices that must be in range, in the shape of `index`.

    Under `vmap` the lanes' tables are one long table: XLA on CPUs then reads one index per entry, not one per axis.
    """
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


@take_flat.def_vmap
def _take_flat_batched(axis_size, in_batched, table, index):
    if not in_batched[0]:
        return take_flat(table, index), True
    if not in_batched[1]:
        index = jnp.broadcast_to(index, (axis_size, *index.shape))
    begins = table.shape[1] * np.arange(axis_size, dtype=index.dtype)
    return take_flat(table.reshape(-1), index + np.expand_dims(begins, tuple(range(1, index.ndim)))), True


def batch_last(function: Callable) -> Callable:
    """`function` of arrays [..., n] that belong to n problems; under `vmap` all lanes' problems are side by side.

    Sums over leading axes then run through vectors of lanes, where XLA would run along each lane by itself.
    """
    joint = jax.custom_batching.custom_vmap(jax.jit(function))  # traced once per number of problems

    @joint.def_vmap
    def _joint_batched(axis_size, in_batched, *inputs):
        def join(x, batched):
            x = x if batched else jnp.broadcast_to(x, (axis_size, *x.shape))
            return jnp.moveaxis(x, 0, -2).reshape(*x.shape[1:-1], -1)

        def split(y):
            return jnp.moveaxis(y.reshape(*y.shape[:-1], axis_size, -1), -2, 0)

        outputs = joint(*jax.tree.map(join, inputs, tuple(in_batched)))
        return jax.tree.map(split, outputs), jax.tree.map(lambda _: True, outputs)

    return joint


def single_problem(function: Callable) -> Callable:
    """A function of n problems' arrays [..., n] as one of a single problem's."""

    def of_one(*inputs):
        outputs = function(*jax.tree.map(lambda x: jnp.asarray(x)[..., None], inputs))
        return jax.tree.map(lambda y: y[..., 0], outputs)

    return of_one


def fast_max(values: Array) -> Array:
    """The maximum over the last axis.

    Halves are compared until they are short: XLA on CPUs makes windows of a long reduction, and goes through them
    number by number.
    """
    while values.shape[-1] > LONGEST_REDUCTION:
        half = (values.shape[-1] + 1) // 2  # of an odd number the one in the middle meets itself
        values = jnp.maximum(values[..., :half], values[..., -half:])
    return jnp.max(values, axis=-1)


def fast_sum(table: Array) -> Array:
    """Sums over the leading axis, [...] from [G, ...], for short G.

    As a product with a matrix of two rows, one for each half: XLA on CPUs merges a plain sum with everything that it
    is made of, and computes that number by number.
    """
    size = len(table)
    halves = np.arange(size) // (size // 2 + 1) == np.arange(2)[:, None]
    first, second = jnp.dot(halves.astype(table.dtype), table.reshape(size, -1), precision=jax.lax.Precision.HIGHEST)
    return (first + second).reshape(table.shape[1:])
