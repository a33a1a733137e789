"""Steps of a search in the box 0 ≤ x ≤ 1: parameters at a bound that a step would leave are held fast.

Vectors are lists of scalars, as in `small_matrices`.
"""

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import small_matrices


def step_within(x: Array, curvature: list[list[Array]], force: list[Array]) -> list[Array]:
    """curvature⁻¹ force, within the bounds to first order."""
    free = [jnp.ones(())] * len(force)
    for _ in range(len(force)):
        step = small_matrices.solve(
            small_matrices.factor(small_matrices.held(curvature, free)),
            [a * b for a, b in zip(force, free, strict=True)],
        )
        free = _still_free(x, step, free)
    return [a * b for a, b in zip(step, free, strict=True)]


def steps_uphill(x, metric, uphill, outward, over, lengths) -> tuple[list[list[Array]], list[Array]]:
    """Steps of given lengths that gain most while over + outward·δ ≤ 0; and the way back, per unit of excess."""
    free = [jnp.ones(())] * len(uphill)
    for attempt in range(len(uphill)):
        factor = small_matrices.factor(small_matrices.held(metric, free))
        gain, out = ([a * b for a, b in zip(force, free, strict=True)] for force in (uphill, outward))
        up, away = small_matrices.solve(factor, gain), small_matrices.solve(factor, out)
        steepness, against, crossing = (
            small_matrices.dot(gain, up),
            small_matrices.dot(gain, away),
            jnp.maximum(small_matrices.dot(out, away), 1e-20),
        )
        steps = [_step(length, up, away, steepness, against, crossing, over) for length in lengths]
        if attempt < len(uphill) - 1:
            free = _still_free(x, steps[0], free)
    return [[s * f for s, f in zip(step, free, strict=True)] for step in steps], [-a / crossing for a in away]


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


def clipped(x: Array, step: list[Array]) -> Array:
    return jnp.clip(x + jnp.stack(step), 0.0, 1.0)
