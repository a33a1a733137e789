"""Steps of a search in the box 0 ≤ x ≤ 1: parameters at a bound that a step would leave are held fast.

Vectors are lists of their entries, as in `small_matrices`; x is an array [p, ...].
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from jaxband._compiled import unrolled_linalg


def step_within(x: Array, curvature: list[list[Array]], force: list[Array]) -> list[Array]:
    """curvature⁻¹ force, within the bounds to first order."""

    def attempt(free):
        factor = unrolled_linalg.factor(unrolled_linalg.held(curvature, free))
        return [unrolled_linalg.solve(factor, _times(force, free))]

    return _held_fast(x, attempt, 1)[0]


def step_uphill(x, metric, uphill, outward, over, length) -> list[list[Array]]:
    """The step of a given length that gains most while over + outward·δ ≤ 0; and the way back, per unit of excess."""

    def attempt(free):
        factor = unrolled_linalg.factor(unrolled_linalg.held(metric, free))
        gain, out = _times(uphill, free), _times(outward, free)
        up, away = unrolled_linalg.solve(factor, gain), unrolled_linalg.solve(factor, out)
        crossing = jnp.maximum(unrolled_linalg.dot(out, away), 1e-20)
        step = _step(length, up, away, unrolled_linalg.dot(gain, up), unrolled_linalg.dot(gain, away), crossing, over)
        return [step, [-a / crossing for a in away]]

    return _held_fast(x, attempt, 2)


def _held_fast(x: Array, attempt: Callable, num_vectors: int) -> list[list[Array]]:
    """The vectors that the last of p attempts gives, a step first; each is told which parameters are still free."""

    def again(_, last):
        free, _ = last
        found = attempt(free)
        return _still_free(x, found[0], free), found

    free = [jnp.ones_like(row) for row in x]
    nothing = [[jnp.zeros_like(row) for row in x]] * num_vectors
    return jax.lax.fori_loop(0, len(x), again, (free, nothing))[1]


def _times(vector: list[Array], free: list[Array]) -> list[Array]:
    return [a * b for a, b in zip(vector, free, strict=True)]


def _step(length, up, away, steepness, against, crossing, over) -> list[Array]:
    """Straight uphill if that stays within the bound; else to the bound, and along it."""
    steepness = jnp.maximum(steepness, 1e-20)
    straight = length * jax.lax.rsqrt(steepness)
    to_bound = jnp.clip(-over / crossing, 0.0, length * jax.lax.rsqrt(crossing))
    rest = jnp.sqrt(jnp.maximum(length**2 - to_bound**2 * crossing, 0.0))
    along = rest * jax.lax.rsqrt(jnp.maximum(steepness - against**2 / crossing, 1e-6 * steepness))
    within = over + straight * against <= 0.0
    return [
        jnp.where(within, straight * u, to_bound * a + along * (u - against / crossing * a))
        for u, a in zip(up, away, strict=True)
    ]


def _still_free(x: Array, step: list[Array], free: list[Array]) -> list[Array]:
    """Parameters at a bound that the step would leave are held fast."""
    leaves = [((x[i] <= 0.0) & (s < 0.0)) | ((x[i] >= 1.0) & (s > 0.0)) for i, s in enumerate(step)]
    return [jnp.where(leave, 0.0, f) for leave, f in zip(leaves, free, strict=True)]


def tried(x: Array, steps: list[Array]) -> Array:
    """x [p, n] after r steps each, [r, n] in every parameter: [p, r · n], within the box."""
    return jnp.clip(jnp.stack([(a[None, :] + b).reshape(-1) for a, b in zip(x, steps, strict=True)]), 0.0, 1.0)
