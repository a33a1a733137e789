"""The two searches of RogueUCB-Tuned, from given points: the fit of an arm, and its most favourable parameters.

Every function is about many arms at once, at the back of all arrays: points x [p, ...], counts [G, ...].
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband._compiled import unrolled_linalg
from jaxband._compiled.batching import fast_sum
from jaxband.policies.rogue.box_steps import step_uphill, step_within, tried
from jaxband.policies.rogue.family_curves import value_at, values_at, with_slopes
from jaxband.recovery import ParametricFamily

FIT_STEPS = 6
DAMPINGS = np.array([1e-6, 1e-3, 1e-1, 1e1])  # of a Gauss–Newton step, relative to the mean curvature
REACHES = np.array([1.5, 0.5])  # lengths tried in every step uphill
RIDGE = 1e-6  # relative to the mean curvature: a direction in θ that no play tells anything about


class Fitted(NamedTuple):
    """What the constraint is made of."""

    weights: Array  # [G, ...]; counts / σ²
    curve: Array  # [G, ...]; f(θ̂, ·)
    factor: list[list[Array]]  # of H, in x
    num_plays: Array  # at least 1
    largest_spread: Array  # η/4


def fit_from(family: ParametricFamily, x: Array, counts: Array, averages: Array) -> tuple[Array, Array]:
    """Points of less and less Σ n (f − ȳ)² from x [p, n] on; the last ones, and Σ n f (f − 2ȳ) there [n]."""
    of_trials = _repeated((counts, averages), len(DAMPINGS))

    def curves(x):
        return values_at(family, len(counts), x)

    def misfit(x, counts, averages):
        values = curves(x)
        return fast_sum(counts * values * (values - 2.0 * averages))

    def improve(_, best):
        x, least = best
        values, slopes = with_slopes(curves, x)
        left = counts * (averages - values)
        force = [fast_sum(slope * left) for slope in slopes]
        curvature = unrolled_linalg.products(slopes, counts)

        def step(damping):
            ridge = damping * unrolled_linalg.mean(curvature)
            return step_within(x, unrolled_linalg.with_ridge(curvature, ridge), force)

        trials = tried(x, jax.vmap(step)(jnp.asarray(DAMPINGS, x.dtype)))
        return _least(x, least, trials, misfit(trials, *of_trials))

    return jax.lax.fori_loop(0, FIT_STEPS, improve, (x, misfit(x, counts, averages)))


def information(family: ParametricFamily, x: Array, counts: Array, averages: Array) -> Array:
    """σ² times the observed information of plays in x, or Fisher's where that is not positive definite.

    A lower triangle row by row, [p(p+1)/2, n].
    """

    def slopes_at(x):
        return with_slopes(lambda x: values_at(family, len(counts), x), x)

    (values, slopes), bends = with_slopes(slopes_at, x)
    left = counts * (values - averages)
    fisher = unrolled_linalg.products(slopes, counts)
    rest = [[fast_sum(left * bend) for bend in row[: i + 1]] for i, (_, row) in enumerate(bends)]
    observed = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(fisher, rest, strict=True)]
    definite = unrolled_linalg.is_positive_definite(observed)
    return jnp.where(definite[None], unrolled_linalg.flat(observed), unrolled_linalg.flat(fisher))


def fitted(
    family: ParametricFamily, counts: Array, x: Array, known: Array, noise: Array, largest_divergence: Array
) -> Fitted:
    """From the fit x [p, ...] and the information there."""
    matrix = unrolled_linalg.from_flat(known)
    ridge = RIDGE * unrolled_linalg.mean(matrix) + 1e-12
    return Fitted(
        counts / noise[None] ** 2,
        values_at(family, len(counts), x),
        unrolled_linalg.factor(unrolled_linalg.with_ridge(matrix, ridge)),
        jnp.maximum(fast_sum(counts), 1.0),
        largest_divergence / 4.0,
    )


def needed(arm: Fitted, values: Array, slopes: list[Array]) -> Array:
    """The ln t from which on curves [G, ...] with slopes [G, ...] are admissible: q² / (N min(η/4, S))."""
    divergence, gradient = _divergence(arm, values, slopes)
    return divergence**2 / (arm.num_plays * spread(arm, unrolled_linalg.half_solve(arm.factor, gradient)))


def spread(arm: Fitted, half: list[Array]) -> Array:
    """min(η/4, S) from L⁻¹ g, with H = L Lᵀ."""
    return _bounded(arm, unrolled_linalg.dot(half, half) / arm.num_plays**2)


def refine(
    family: ParametricFamily, num_steps: int, x: Array, index: Array, arm: Fitted, z: Array, log_t: Array
) -> tuple[Array, Array]:
    """The x of largest f(θ, z) found from admissible ones [p, n], and f there [n].

    Steps go along f, or along the bound of the admissible set.
    The length of a step is measured by what it would add to q, or by its share of the box where the plays say
    nothing; it grows after a success and shrinks after a failure. A trial beyond the bound is put back once.
    """
    of_trials = _repeated((arm, log_t, z), len(REACHES))
    farthest = jnp.sqrt(arm.num_plays * arm.largest_spread * log_t)  # of q, whatever S

    def curves(x):
        return values_at(family, len(arm.weights), x)

    def excess(x, arm, log_t, z):
        return needed(arm, *with_slopes(curves, x)) / log_t - 1.0

    def improve(_, best):
        x, index, length = best
        metric, bound, outward = _bound_at(arm, curves, x)
        metric = unrolled_linalg.with_ridge(metric, 2.0 * farthest)
        over, outward = bound / log_t - 1.0, [slope / log_t for slope in outward]
        _, uphill = with_slopes(lambda x: value_at(family, x, z), x)

        def step(reach):
            return step_uphill(x, metric, uphill, outward, over, reach * length)

        def put_back(_, last):
            trials, too_far = last
            trials = tried(trials, [1.1 * jnp.maximum(too_far, 0.0)[None] * b.reshape(1, -1) for b in back])
            return trials, excess(trials, *of_trials)

        steps, back = jax.vmap(step)(jnp.asarray(REACHES, x.dtype))
        trials = tried(x, steps)
        trials, too_far = jax.lax.fori_loop(0, 2, put_back, (trials, jnp.zeros_like(trials[0])))
        losses = jnp.where(too_far <= 0.0, -value_at(family, trials, of_trials[-1]), jnp.inf)
        x, loss = _least(x, -index, trials, losses)
        return x, -loss, jnp.where(-loss > index, 1.5, 0.2) * length

    length = jnp.sqrt(2.0 * jnp.minimum(2.0 * log_t / arm.num_plays, farthest))
    return jax.lax.fori_loop(0, num_steps, improve, (x, index, length))[:2]


def _bound_at(arm: Fitted, curves: Callable, x: Array) -> tuple[list[list[Array]], Array, list[Array]]:
    """Σ weight · slope slopeᵀ at x, `needed` there, and its derivative in x.

    With v = H⁻¹ g the derivative of gᵀ H⁻¹ g is 2 vᵀ ∂g, and ∂g is that sum and one of second derivatives.
    """
    values, slopes = with_slopes(curves, x)
    divergence, gradient = _divergence(arm, values, slopes)
    metric = unrolled_linalg.products(slopes, arm.weights)
    ahead = unrolled_linalg.solve(arm.factor, gradient)
    tuned = unrolled_linalg.dot(gradient, ahead) / arm.num_plays**2
    bounded = _bounded(arm, tuned)
    left = arm.weights * (values - arm.curve)
    _, bends = with_slopes(lambda x: jax.jvp(curves, (x,), (jnp.stack(ahead),))[1], x)
    turn = [fast_sum(left * b) + m for b, m in zip(bends, unrolled_linalg.times(metric, ahead), strict=True)]
    ratio = divergence / (arm.num_plays * bounded)
    share = jnp.where(bounded == tuned, 2.0 * divergence / (bounded * arm.num_plays**2), 0.0)
    return metric, ratio * divergence, [ratio * (2.0 * g - share * s) for g, s in zip(gradient, turn, strict=True)]


def _divergence(arm: Fitted, values: Array, slopes: list[Array]) -> tuple[Array, list[Array]]:
    """q = Σ KL and its gradient."""
    difference = values - arm.curve
    left = arm.weights * difference
    return 0.5 * fast_sum(left * difference), [fast_sum(slope * left) for slope in slopes]


def _bounded(arm: Fitted, tuned: Array) -> Array:
    """min(η/4, S)."""
    return jnp.clip(tuned, 1e-30, arm.largest_spread)


def _repeated(problems, times: int):
    """Arrays [..., n] of problems, [..., times · n], so that what is tried for each need not be broadcast in loops."""
    return jax.tree.map(lambda a: jnp.concatenate([a] * times, axis=-1), problems)


def _least(x: Array, least: Array, trials: Array, losses: Array) -> tuple[Array, Array]:
    """x [p, n] or that of the trials [p, r · n] of least loss; the loss [n]."""
    size = len(least)
    for i in range(0, len(losses), size):
        trial, loss = trials[:, i : i + size], losses[i : i + size]
        x, least = jnp.where((loss < least)[None], trial, x), jnp.minimum(loss, least)
    return x, least
