"""Loops under `vmap`: run until every lane is done, instead of copying the state to keep the lanes that are."""

import jax
import jax.numpy as jnp
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
