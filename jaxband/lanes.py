"""What `vmap` makes slow on CPUs, with batching rules of its own: conditions of loops, and look-ups in tables."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


@jax.custom_batching.custom_vmap
def in_any_lane(wanted: Array) -> Array:
    """`wanted`; under `vmap`, whether any lane wants it.

    For conditions of `while_loop`: one that differs between lanes makes XLA select between the old and the new state,
    all of it, in every step. With this one the body runs on for all lanes and must leave a finished one as it is.
    """
    return wanted


@in_any_lane.def_vmap
def _in_any_lane_batched(axis_size, in_batched, wanted):
    return in_any_lane(jnp.any(wanted)), False


def of_each_row(table: Array, index: Array) -> Array:
    """Entry index[k] of every row k of a table [K, n], [K]. Indices must be in range."""
    num_rows, size = table.shape
    return look_up(table.reshape(-1), size * np.arange(num_rows, dtype=index.dtype) + index)


@jax.custom_batching.custom_vmap
def look_up(table: Array, index: Array) -> Array:
    """Entries of a flat table [n] at indices that must be in range, in the shape of `index`.

    Under `vmap` the lanes' tables are one long table: XLA on CPUs then reads one index per entry, not one per axis.
    """
    return table.at[index].get(mode="promise_in_bounds")


@look_up.def_vmap
def _look_up_batched(axis_size, in_batched, table, index):
    if not in_batched[0]:
        return look_up(table, index), True
    if not in_batched[1]:
        index = jnp.broadcast_to(index, (axis_size, *index.shape))
    begins = table.shape[1] * np.arange(axis_size, dtype=index.dtype)
    return look_up(table.reshape(-1), index + np.expand_dims(begins, tuple(range(1, index.ndim)))), True
