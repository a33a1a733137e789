"""A tournament: the largest of many numbers, kept while they change, in O(log n) per change.

Level 0 holds the numbers, each later level the largest of every `FANOUT` of the level before: wide and flat, because
looking at 32 neighbours costs a vector unit about as much as looking at two.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array

FANOUT = 32

Levels = tuple[Array, ...]  # [n], [n / 32], … each padded to a multiple of 32 with −∞; the last has 32


def start(size: int, dtype) -> Levels:
    """`size` entries, all −∞."""
    levels = []
    while not levels or size > 1:
        levels.append(jnp.full(math.ceil(size / FANOUT) * FANOUT, -jnp.inf, dtype))
        size = math.ceil(size / FANOUT)
    return tuple(levels)


def update(levels: Levels, *entries: tuple[Array, Array]) -> Levels:
    """Each entry (index, value) replaces the number at its index. All are made level by level: XLA then copies none."""
    entered = []
    for level in levels:
        for index, value in entries:
            level = jax.lax.dynamic_update_slice(level, value[None], (index,))
        entered.append(level)
        groups = [index // FANOUT for index, _ in entries]
        entries = [(group, jnp.max(_group(level, group))) for group in groups]
    return tuple(entered)


def argmax(levels: Levels) -> Array:
    """The index of the largest entry; of several, the last: a tree search then goes deep, not wide."""
    index = jnp.zeros((), jnp.int32)
    for level in reversed(levels):
        rivals = _group(level, index)[::-1]
        index = index * FANOUT + (FANOUT - 1) - jnp.argmax(rivals).astype(jnp.int32)
    return index


def _group(level: Array, index: Array) -> Array:
    return jax.lax.dynamic_slice(level, (index * FANOUT,), (FANOUT,))
