"""Exact upper-confidence plans: max η + α √(v + e) over partitions of the slots, where η and v are sums over arms.

The root is not additive, so that plain dynamic programming is wrong. But for any deviation s > 0 and λ = α / (2s),

    α √(v + e)  ≤  λ (v + e) + α s / 2                                     (equality at v + e = s²)

and the right-hand side is additive: dynamic programming on η + λ v bounds every plan. First the bound is minimised
over s. Then the best M fillings by η + λ v, *labels*, are kept for every slot set. A label that has to be dropped
could lead to no more than its own η + λ v plus the best completion; if none of the dropped could beat the best plan
found, that plan is certified.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband.planners.fillings import SlotPairs, best_filling, decode, first_best, slot_pairs, words

BISECTIONS = 12
SMALLEST_DEVIATION = 1e-4  # of the largest: below it the bound is loose but still a bound


class UcbPlan(NamedTuple):
    """The best sequence found for an upper confidence bound."""

    arms: Array  # [d]
    value: Array  # η + α √(ς² + extra variance)
    certified: Array  # bool; no other sequence is better
    gap: Array  # how much better another one could be at most; 0 if certified


class _Labels(NamedTuple):
    """Up to M fillings of each slot set, best first by key = η + λ v; [sets, M] each, key −∞ where there are fewer."""

    key: Array
    eta: Array
    variance: Array
    words: tuple[Array, ...]


def best_ucb(eta: Array, variance: Array, alpha: Array, extra: Array, *, repeats: bool, num_labels: int) -> UcbPlan:
    """The plan from tables eta, variance [K, 2^d] over slot sets; `num_labels` M a power of two."""
    num_arms, depth = eta.shape[0], eta.shape[1].bit_length() - 1
    pairs = slot_pairs(depth, repeats)
    multiplier, constant = _tightest_bound(eta, variance, alpha, extra, repeats)
    eta, variance = pairs.arrange(eta), jnp.where(jnp.asarray(pairs.allowed)[None, :], variance[:, pairs.sets], 0.0)
    spelled = tuple(jnp.asarray(word[:, pairs.sets]) for word in words(num_arms, depth))
    arms = _Labels(eta + multiplier * variance, eta, variance, spelled)
    completion = _completions(arms.key, pairs)

    def add_arm(labels, inputs):
        arm, completion = inputs
        merged = [_keep_best(_extend(labels, arm, *group), num_labels) for group in pairs.groups]
        labels, dropped = jax.tree.map(lambda *parts: jnp.concatenate(parts), *merged)
        return labels, jnp.max(dropped + completion)

    start = _Labels(*(jnp.full((len(pairs.sets), num_labels), fill, eta.dtype) for fill in (-jnp.inf, 0.0, 0.0)), ())
    start = start._replace(words=tuple(jnp.zeros(start.key.shape, jnp.int32) for _ in spelled))
    start = start._replace(key=start.key.at[0, 0].set(0.0))  # nothing filled with no arm: one label, the empty one
    labels, dropped = jax.lax.scan(add_arm, start, (arms, completion))

    full = jax.tree.map(lambda x: x[-1], labels)
    deviation = jnp.sqrt(jnp.maximum(full.variance, 0.0) + extra)
    values = jnp.where(full.key > -jnp.inf, full.eta + alpha * deviation, -jnp.inf)
    value = jnp.max(values)
    chosen = first_best(values, full.words)
    gap = jnp.maximum(jnp.max(dropped) + constant - value, 0.0)
    return UcbPlan(decode(chosen, num_arms, depth), value, gap <= 0.0, gap)


def _tightest_bound(eta, variance, alpha, extra, repeats) -> tuple[Array, Array]:
    """λ and λ e + α s / 2 for the deviation s that (nearly) minimises max_plans η + λ (v + e) + α s / 2, by bisection.

    The variance of the best plan falls as s grows, so that v + e − s² changes sign once, at the minimum.
    """
    depth = eta.shape[1].bit_length() - 1
    largest = jnp.sqrt(jnp.maximum(depth * jnp.max(variance), 0.0) + extra) + 1e-12  # λ stays finite without variance
    arms_of = jnp.arange(eta.shape[0], dtype=jnp.int32)[:, None]
    slots = jnp.asarray(1 << np.arange(depth), jnp.int32)[None, :]

    def halve(_, bounds):
        low, high = bounds
        middle = jnp.sqrt(low * high)
        _, arms = best_filling(eta + alpha / (2.0 * middle) * variance, repeats)
        taken = jnp.sum(jnp.where(arms[None, :] == arms_of, slots, 0), axis=1)
        spread = jnp.sum(jnp.take_along_axis(variance, taken[:, None], axis=1)) + extra
        return jnp.where(spread > middle**2, middle, low), jnp.where(spread > middle**2, high, middle)

    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (SMALLEST_DEVIATION * largest, largest))
    deviation = jnp.sqrt(low * high)
    multiplier = alpha / (2.0 * deviation)
    return multiplier, multiplier * extra + 0.5 * alpha * deviation


def _completions(keys: Array, pairs: SlotPairs) -> Array:
    """What the arms after j add at most to the slots that S leaves open: [K, 2^d] for every j and S."""
    complement = np.argsort(pairs.sets)[len(pairs.sets) - 1 - pairs.sets]

    def add_arm(best, key):
        filled = [jnp.max(key[own] + best[rest], axis=1) for own, rest in pairs.groups]
        return jnp.concatenate(filled), best[complement]

    nothing = jnp.full(keys.shape[1:], -jnp.inf, keys.dtype).at[0].set(0.0)
    _, completions = jax.lax.scan(add_arm, nothing, keys, reverse=True)
    return completions


def _extend(labels: _Labels, arm: _Labels, own: np.ndarray, rest: np.ndarray) -> _Labels:
    """All fillings of the sets of one size by one more arm: [sets, 2^size · M]."""
    return jax.tree.map(lambda old, new: (old[rest] + new[own][..., None]).reshape(len(own), -1), labels, arm)


def _keep_best(candidates: _Labels, num_labels: int) -> tuple[_Labels, Array]:
    """The best M of [sets, n] candidates, and the best key that is dropped, [sets]."""
    count = candidates.key.shape[1]
    if count == num_labels:
        return candidates, jnp.full(candidates.key.shape[:1], -jnp.inf, candidates.key.dtype)
    keys, best = jax.lax.top_k(candidates.key, num_labels + 1)
    kept = jax.tree.map(lambda x: jnp.take_along_axis(x, best[:, :num_labels], axis=1), candidates)
    return kept, keys[:, num_labels]
