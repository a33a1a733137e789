"""Plans of one play."""

import jax.numpy as jnp
from jax import Array

from jaxband._compiled import batching
from jaxband.base import IDLE, Plan


def best_arm(values: Array, available: Array | None = None, idle: bool = False) -> Plan:
    """The plan of one play, the first of largest value [K] among the `available` [K].

    `IDLE` if none is available; with `idle`, also if all values are negative.
    """
    if available is None and not idle:
        return Plan(jnp.argmax(values).astype(jnp.int32)[None], batching.fast_max(values), jnp.asarray(True))
    if available is not None:
        values = jnp.where(available, values, -jnp.inf)
    best = jnp.max(values)
    play = best >= 0.0 if idle else best > -jnp.inf
    arm = jnp.where(play, jnp.argmax(values).astype(jnp.int32), IDLE)
    return Plan(arm[None], jnp.where(play, best, 0.0), jnp.asarray(True))
