"""Dynamic programming over slot sets: the best way to fill all slots, in O(K·3^d) instead of K^d.

What an arm adds depends only on its slot set (`slot_sets`), so the best way to fill slots S with the first j arms is

    V_j(S) = max_{A ⊆ S}  g_j(A) + V_{j−1}(S ∖ A)

over the 3^d pairs (S, A). Beside its value every filling carries its arms as a number in base K, most significant slot
first. Of several best fillings the smaller number wins: the lexicographically first, as in exhaustive search.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def best_partition(gains: Array, repeats: bool) -> tuple[Array, Array]:
    """The largest Σ_j gains[j, A_j] over partitions of the slots into sets A_j, and its arms [d]; gains [K, 2^d]."""
    num_arms, depth = gains.shape[0], gains.shape[1].bit_length() - 1
    pairs = slot_pairs(depth, repeats)
    arms = _Partitions(pairs.arrange(gains), tuple(jnp.asarray(word[:, pairs.sets]) for word in words(num_arms, depth)))

    def add_arm(filled, arm):
        groups = [_fill(filled, arm, *group) for group in pairs.groups]
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *groups), None

    first, middle, last = (jax.tree.map(lambda x, rows=rows: x[rows], arms) for rows in (0, slice(1, -1), -1))
    best, _ = jax.lax.scan(add_arm, first, middle)
    if num_arms > 1:
        best = _fill(best, last, *pairs.groups[-1])  # the last arm only has to complete the full set
    return best.value[-1], decode([word[-1] for word in best.words], num_arms, depth)


class _Partitions(NamedTuple):
    """The best ways to fill slot sets, [2^d] each, sets ordered by size."""

    value: Array
    words: tuple[Array, ...]  # int32; the arms in base K, split so that each word holds as many slots as fit


def _fill(filled: _Partitions, arm: _Partitions, own: np.ndarray, rest: np.ndarray) -> _Partitions:
    """Slot sets filled with one more arm, which takes own[S, i] and leaves rest[S, i] to the arms before it."""
    values = arm.value[own] + filled.value[rest]
    candidates = [arm_word[own] + word[rest] for arm_word, word in zip(arm.words, filled.words, strict=True)]
    return _Partitions(jnp.max(values, axis=1), first_best(values, candidates))


def first_best(values: Array, words: Sequence[Array]) -> tuple[Array, ...]:
    """The words of the largest value along the last axis; of several, the first in lexicographic order."""
    best = values == jnp.max(values, axis=-1, keepdims=True)
    chosen = []
    for word in words:
        candidates = jnp.where(best, word, np.iinfo(np.int32).max)
        chosen.append(jnp.min(candidates, axis=-1))
        best = candidates == chosen[-1][..., None]
    return tuple(chosen)


class SlotPairs(NamedTuple):
    """The 3^d pairs of a slot set and a subset of it, static. Sets are ordered by size and named by their rank."""

    sets: np.ndarray  # [2^d]; bit masks in that order
    allowed: np.ndarray  # [2^d]; may one arm take this set?
    groups: tuple[tuple[np.ndarray, np.ndarray], ...]  # per size s: subset and remainder of each, [sets of size s, 2^s]

    def arrange(self, gains: Array) -> Array:
        """`gains` [K, 2^d] in the order of `sets`, −∞ where a set is not allowed."""
        return jnp.where(jnp.asarray(self.allowed)[None, :], gains[:, self.sets], -jnp.inf)

    def split(self, table: Array) -> list[Array]:
        """`table` [2^d] in the order of `sets`, cut into one part per group."""
        return jnp.split(table, np.cumsum([len(own) for own, _ in self.groups])[:-1])


@functools.cache
def slot_pairs(depth: int, repeats: bool) -> SlotPairs:
    masks = np.arange(2**depth)
    sizes = np.bitwise_count(masks)
    sets = np.lexsort((masks, sizes)).astype(np.int32)
    rank = np.argsort(sets).astype(np.int32)
    groups = []
    for size in range(depth + 1):
        wholes = sets[sizes[sets] == size]
        own = np.stack([masks[(masks & whole) == masks] for whole in wholes])
        if not repeats:
            own = own[sizes[own] <= 1].reshape(len(wholes), size + 1)
        groups.append((rank[own], rank[wholes[:, None] - own]))
    return SlotPairs(sets, (sizes[sets] <= 1) | repeats, tuple(groups))


@functools.cache
def words(num_arms: int, depth: int) -> tuple[np.ndarray, ...]:
    """What each arm and slot set add to the words that spell a plan, [K, 2^d] each, most significant word first."""
    weights = np.zeros((math.ceil(depth / _slots_per_word(num_arms)), 2**depth), np.int32)
    for slot in range(depth):
        word, place = divmod(slot, _slots_per_word(num_arms))
        weights[word] += (np.arange(2**depth) >> slot & 1) * num_arms ** (_slots_per_word(num_arms) - 1 - place)
    return tuple(np.arange(num_arms, dtype=np.int32)[:, None] * weight[None, :] for weight in weights)


def decode(words: list[Array], num_arms: int, depth: int) -> Array:
    """The arms [d] that words spell."""
    slots = _slots_per_word(num_arms)
    places = [num_arms ** (slots - 1 - place) for place in range(slots)]
    return jnp.stack([word // place % num_arms for word in words for place in places])[:depth]


def _slots_per_word(num_arms: int) -> int:
    """How many digits in base K an int32 holds."""
    return max(n for n in range(1, 32) if num_arms**n < 2**31)
