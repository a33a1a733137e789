"""Exact plans by dynamic programming over slot sets, in O(K·3^d) instead of K^d.

What an arm adds depends only on its slot set (`windows`), so the best way to fill the slots S with the first j arms is

    V_j(S) = max_{A ⊆ S}  g_j(A) + V_{j−1}(S ∖ A)

over the 3^d pairs (S, A). Of several best plans the lexicographically first is returned, as the exhaustive planner
does: beside its value every entry carries its arms as a number in base K, most significant slot first, and the smaller
number wins a tie.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband.base import Plan
from jaxband.planners import windows

MAX_DEPTH = 12  # 531,441 pairs


def subset(depth: int, repeats: bool = True) -> "Subset":
    """A planner for known or sampled curves that is exact far beyond exhaustive search; without `repeats` no arm twice.

    >>> plan = subset(depth=2).plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[1, 2])
    >>> plan.arms.tolist(), round(plan.value.item(), 3)
    ([1, 0], 1.7)
    """
    remedy = "for longer plans use optimistic(depth, budget)"
    return Subset(checks.whole_number("depth", depth, 1, MAX_DEPTH, remedy=remedy), bool(repeats))


@dataclasses.dataclass(frozen=True)
class Subset:
    depth: int
    repeats: bool = True

    def check(self, num_arms: int) -> None:
        windows.check_single_play(self.depth, self.repeats, num_arms)

    def plan(self, curves: Array, z: Array) -> Plan:
        """The sequence of largest total on known or sampled curves [K, G] from rests z [K]."""
        return self.plan_points(windows.reach(*windows.inputs(z, curves=curves), self.depth))

    def plan_points(self, points: Array, num_slots: Array | None = None) -> Plan:
        """The same from the points within reach [K, 2d − 1]; only the first `num_slots` slots count, if given."""
        num_arms = points.shape[0]
        self.check(num_arms)
        pairs = _pairs(self.depth, self.repeats)
        gains = windows.totals(windows.gains(points, num_slots))[:, pairs.sets]
        if not self.repeats:
            gains = jnp.where(jnp.asarray(pairs.sizes > 1)[None, :], -jnp.inf, gains)
        arms = _Filled(gains, tuple(jnp.asarray(word[:, pairs.sets]) for word in _words(num_arms, self.depth)))

        def add_arm(filled, arm):
            groups = [_fill(filled, arm, *group) for group in pairs.groups]
            return jax.tree.map(lambda *parts: jnp.concatenate(parts), *groups), None

        first, middle, last = (jax.tree.map(lambda x, rows=rows: x[rows], arms) for rows in (0, slice(1, -1), -1))
        best, _ = jax.lax.scan(add_arm, first, middle)
        if num_arms > 1:
            best = _fill(best, last, *pairs.groups[-1])  # the last arm only has to complete the full set
        return Plan(_decode([word[-1] for word in best.words], num_arms, self.depth), best.value[-1], jnp.asarray(True))


class _Filled(NamedTuple):
    """The best ways to fill slot sets, [2^d] each, sets ordered by size."""

    value: Array
    words: tuple[Array, ...]  # int32; the arms in base K, split so that each word holds as many slots as fit


def _fill(filled: _Filled, arm: _Filled, own: np.ndarray, rest: np.ndarray) -> _Filled:
    """Slot sets filled with one more arm, which takes own[S, i] and leaves rest[S, i] to the arms before it."""
    values = arm.value[own] + filled.value[rest]
    value = jnp.max(values, axis=1)
    best = values == value[:, None]
    words = []
    for arm_word, word in zip(arm.words, filled.words, strict=True):
        candidates = jnp.where(best, arm_word[own] + word[rest], np.iinfo(np.int32).max)
        words.append(jnp.min(candidates, axis=1))
        best = candidates == words[-1][:, None]
    return _Filled(value, tuple(words))


class _Pairs(NamedTuple):
    """The 3^d pairs of a slot set and a subset of it, static. Sets are ordered by size and named by their rank."""

    sets: np.ndarray  # [2^d]; bit masks in that order
    sizes: np.ndarray  # [2^d]
    groups: tuple[tuple[np.ndarray, np.ndarray], ...]  # per size s: subset and remainder of each, [sets of size s, 2^s]


@functools.cache
def _pairs(depth: int, repeats: bool) -> _Pairs:
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
    return _Pairs(sets, sizes[sets], tuple(groups))


@functools.cache
def _words(num_arms: int, depth: int) -> tuple[np.ndarray, ...]:
    """What each arm and slot set add to the words that spell a plan, [K, 2^d] each, most significant word first."""
    weights = np.zeros((math.ceil(depth / _slots_per_word(num_arms)), 2**depth), np.int32)
    for slot in range(depth):
        word, place = divmod(slot, _slots_per_word(num_arms))
        weights[word] += (np.arange(2**depth) >> slot & 1) * num_arms ** (_slots_per_word(num_arms) - 1 - place)
    return tuple(np.arange(num_arms, dtype=np.int32)[:, None] * weight[None, :] for weight in weights)


def _decode(words: list[Array], num_arms: int, depth: int) -> Array:
    slots = _slots_per_word(num_arms)
    places = [num_arms ** (slots - 1 - place) for place in range(slots)]
    return jnp.stack([word // place % num_arms for word in words for place in places])[:depth]


def _slots_per_word(num_arms: int) -> int:
    """How many digits in base K an int32 holds."""
    return max(n for n in range(1, 32) if num_arms**n < 2**31)
