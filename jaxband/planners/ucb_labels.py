"""Exact upper-confidence plans: max η + α √(v + e) over partitions of the slots, where η and v are sums over arms.

The root is not additive, so that plain dynamic programming is wrong. But for any deviation s > 0 and λ = α / (2s),

    α √(v + e)  ≤  λ (v + e) + α s / 2                                     (equality at v + e = s²)

and the right-hand side is additive: dynamic programming on the *key* η + λ v bounds every plan. First the bound is
minimised over s; the plans met on the way are tried, the best is the *incumbent*. Then partial plans, *labels*, are
kept for every slot set, arm by arm. One is discarded if its key and the best completion promise no more than the
incumbent has, or if another of the same slots has at least its η and its v. What is left is few: M per slot set, best
keys first. If one had to be dropped beyond them, the promise it held bounds the error; if not, the plan is certified.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband._compiled.batching import any_over_batch
from jaxband.planners.partitions import SlotPairs, best_partition, decode, first_best, slot_pairs, words

BISECTIONS = 8
SMALLEST_DEVIATION = 1e-3  # of the largest: below it the bound is loose but still a bound
ROUNDING = 16  # units in the last place by which a plan must promise to be better


class UcbPlan(NamedTuple):
    """The best sequence found for an upper confidence bound."""

    arms: Array  # [d]
    value: Array  # η + α √(ς² + extra variance)
    certified: Array  # bool; no other sequence is better, but for rounding
    gap: Array  # how much better another one could be at most; 0 if certified


class _Relaxation(NamedTuple):
    """The tightest bound λ v + constant ≥ α √(v + e), and the best plan met in finding it."""

    multiplier: Array  # λ
    constant: Array  # λ e + α s / 2
    arms: Array  # [d]; the incumbent
    value: Array  # what it is worth


class _Labels(NamedTuple):
    """Partial plans of each slot set, [sets, M] each; key −∞ where there are fewer."""

    key: Array  # η + λ v
    eta: Array
    variance: Array
    words: tuple[Array, ...]


def best_ucb(eta: Array, variance: Array, alpha: Array, extra: Array, *, repeats: bool, num_labels: int) -> UcbPlan:
    """The plan from tables eta, variance [K, 2^d] over slot sets, with at most `num_labels` labels per slot set."""
    num_arms, depth = eta.shape[0], eta.shape[1].bit_length() - 1
    pairs = slot_pairs(depth, repeats)
    relaxed = _relax(eta, variance, alpha, extra, repeats)
    scale = jnp.max(jnp.where(eta > -jnp.inf, jnp.abs(eta), 0.0)) + alpha * jnp.sqrt(depth * jnp.max(variance) + extra)
    wanted = relaxed.value + ROUNDING * jnp.finfo(eta.dtype).eps * scale - relaxed.constant

    eta, variance = pairs.arrange(eta), jnp.where(jnp.asarray(pairs.allowed)[None, :], variance[:, pairs.sets], 0.0)
    spelled = tuple(jnp.asarray(word[:, pairs.sets]) for word in words(num_arms, depth))
    arms = _Labels(eta + relaxed.multiplier * variance, eta, variance, spelled)
    needed = wanted - _completions(arms.key, pairs)

    def add_arm(labels, inputs):
        arm, needed = inputs
        fronts = []
        for (own, rest), least in zip(pairs.groups, pairs.split(needed), strict=True):
            fronts.append(_front(_extend(labels, arm, own, rest), least, num_labels))
        labels, promised = jax.tree.map(lambda *parts: jnp.concatenate(parts), *fronts)
        return labels, jnp.max(promised)

    before_last, last = (jax.tree.map(lambda x, rows=rows: x[rows], arms) for rows in (slice(-1), -1))
    labels, promised = jax.lax.scan(add_arm, _no_labels(arms, num_labels), (before_last, needed[:-1]))
    whole = jax.tree.map(lambda x: x[0], _extend(labels, last, *pairs.groups[-1]))
    values = jnp.where(whole.key > -jnp.inf, _ucb(whole.eta, whole.variance, alpha, extra), -jnp.inf)
    found, value = decode(first_best(values, whole.words), num_arms, depth), jnp.max(values)

    better = value > relaxed.value
    value = jnp.maximum(value, relaxed.value)
    gap = jnp.maximum(jnp.max(promised, initial=-jnp.inf) + wanted + relaxed.constant - value, 0.0)
    return UcbPlan(jnp.where(better, found, relaxed.arms), value, gap <= 0.0, gap)


def _ucb(eta: Array, variance: Array, alpha: Array, extra: Array) -> Array:
    return eta + alpha * jnp.sqrt(jnp.maximum(variance, 0.0) + extra)


def _relax(eta: Array, variance: Array, alpha: Array, extra: Array, repeats: bool) -> _Relaxation:
    """The deviation s that (nearly) minimises max_plans η + λ (v + e) + α s / 2, by bisection.

    The variance of the best plan falls as s grows, so that v + e − s² changes sign once, at the minimum.
    """
    depth = eta.shape[1].bit_length() - 1
    largest = jnp.sqrt(jnp.maximum(depth * jnp.max(variance), 0.0) + extra) + 1e-12  # λ stays finite without variance

    def halve(_, carry):
        low, high, best_arms, best_value = carry
        middle = jnp.sqrt(low * high)
        _, arms = best_partition(eta + alpha / (2.0 * middle) * variance, repeats)
        spread = _total(variance, arms)
        value = _ucb(_total(eta, arms), spread, alpha, extra)
        low = jnp.where(spread + extra > middle**2, middle, low)
        high = jnp.where(spread + extra > middle**2, high, middle)
        return low, high, jnp.where(value > best_value, arms, best_arms), jnp.maximum(value, best_value)

    start = (SMALLEST_DEVIATION * largest, largest, jnp.zeros(depth, jnp.int32), jnp.asarray(-jnp.inf, eta.dtype))
    low, high, arms, value = jax.lax.fori_loop(0, BISECTIONS, halve, start)
    deviation = jnp.sqrt(low * high)
    multiplier = alpha / (2.0 * deviation)
    return _Relaxation(multiplier, multiplier * extra + 0.5 * alpha * deviation, arms, value)


def _total(table: Array, arms: Array) -> Array:
    """The sum of table [K, 2^d] over the arms' slot sets in a plan [d]."""
    slots = jnp.asarray(1 << np.arange(arms.shape[0]), jnp.int32)[None, :]
    taken = jnp.where(arms[None, :] == jnp.arange(table.shape[0], dtype=jnp.int32)[:, None], slots, 0)
    return jnp.sum(jnp.take_along_axis(table, jnp.sum(taken, axis=1)[:, None], axis=1))


def _completions(keys: Array, pairs: SlotPairs) -> Array:
    """What the arms after j add at most to the slots that S leaves open: [K, 2^d] for every j and S."""
    complement = np.argsort(pairs.sets)[len(pairs.sets) - 1 - pairs.sets]

    def add_arm(best, key):
        filled = [jnp.max(key[own] + best[rest], axis=1) for own, rest in pairs.groups]
        return jnp.concatenate(filled), best[complement]

    nothing = jnp.full(keys.shape[1:], -jnp.inf, keys.dtype).at[0].set(0.0)
    _, completions = jax.lax.scan(add_arm, nothing, keys, reverse=True)
    return completions


def _no_labels(arms: _Labels, num_labels: int) -> _Labels:
    """Nothing filled with no arm: one label, the empty one."""
    empty = jax.tree.map(lambda x: jnp.zeros((x.shape[1], num_labels), x.dtype), arms)
    return empty._replace(key=jnp.full_like(empty.key, -jnp.inf).at[0, 0].set(0.0))


def _extend(labels: _Labels, arm: _Labels, own: np.ndarray, rest: np.ndarray) -> _Labels:
    """All fillings of the sets of one size by one more arm: [sets, 2^size · M]."""
    return jax.tree.map(lambda old, new: (old[rest] + new[own][..., None]).reshape(len(own), -1), labels, arm)


def _front(candidates: _Labels, needed: Array, num_labels: int) -> tuple[_Labels, Array]:
    """The M best of [sets, n] candidates that none dominates and whose key is above `needed` [sets].

    Beside them, by how much the best that is dropped exceeds what is needed, [sets]; −∞ if none is dropped.
    """
    front = jax.tree.map(lambda x: jnp.zeros((x.shape[0], num_labels), x.dtype), candidates)
    front = front._replace(key=jnp.full_like(front.key, -jnp.inf))
    alive = jnp.where(candidates.key > needed[:, None], candidates.key, -jnp.inf)

    def unfinished(carry):
        count, alive, _ = carry
        return (count < num_labels) & any_over_batch(jnp.any(alive > -jnp.inf))

    def take_best(carry):
        count, alive, front = carry
        spelled = first_best(alive, candidates.words)
        chosen = alive == jnp.max(alive, axis=1, keepdims=True)
        for word, best in zip(candidates.words, spelled, strict=True):
            chosen &= word == best[:, None]
        eta = jnp.max(jnp.where(chosen, candidates.eta, -jnp.inf), axis=1)
        variance = jnp.max(jnp.where(chosen, candidates.variance, -jnp.inf), axis=1)
        best = _Labels(jnp.max(alive, axis=1), eta, variance, spelled)
        front = jax.tree.map(lambda x, new: jax.lax.dynamic_update_index_in_dim(x, new, count, axis=1), front, best)
        dominated = (candidates.eta <= eta[:, None]) & (candidates.variance <= variance[:, None])
        return count + 1, jnp.where(dominated, -jnp.inf, alive), front

    _, alive, front = jax.lax.while_loop(unfinished, take_best, (jnp.zeros((), jnp.int32), alive, front))
    return front, jnp.max(alive, axis=1) - needed
