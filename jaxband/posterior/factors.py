"""Mean, root and evidence from counts and sums alone, by an orthogonal factorisation.

The curve is L w, L the prior root and w standard normal, so that the posterior is a least-squares problem whose rows
are √n/σ · (L w − ȳ), one per rest, and w itself. With its triangular factor R and right-hand side q: root = L R⁻¹,
mean = root q. That is accurate where the normal equations (I + LᵀDL) and one observation per rest are not, once some
rests are seen 10⁵ times and others never.
"""

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband._compiled import linalg
from jaxband._runtime.entry_points import argument, compiled
from jaxband.posterior.state import Posterior, as_columns, as_root, padded


def refresh(posterior: Posterior, noise: Array) -> Posterior:
    """Mean and root rebuilt from counts and sums, free of the rounding that many single observations gather.

    The curve is L w, L the prior root and w standard normal, so that the posterior is a least-squares problem whose
    rows are √n/σ · (L w − ȳ), one per rest, and w itself. With its triangular factor R and right-hand side q:
    root = L R⁻¹, mean = root q. An orthogonal factorisation is accurate where the normal equations (I + LᵀDL) and one
    observation per rest are not, once some rests are seen 10⁵ times and others never.
    """
    return _refresh(posterior, _checked(noise))


@compiled
def _refresh(posterior: Posterior, noise: Array) -> Posterior:
    factors = _factors(posterior, noise)  # [K, r + 1, r + 1]
    prior_root = as_root(posterior.prior_columns, posterior.counts.shape[1])
    root = jax.vmap(lambda prior, factor: linalg.divide_by_triangle(prior, factor[:-1, :-1]))(prior_root, factors)
    mean = jnp.sum(root * factors[:, None, :-1, -1], axis=2)
    num_points = mean.shape[1]
    means, columns = jnp.pad(mean, ((0, 0), (0, padded(num_points) - num_points))), as_columns(root)
    return posterior._replace(
        means=means,
        variances=jnp.sum(columns**2, axis=1),
        columns=columns,
        means_error=jnp.zeros_like(means),
        columns_error=jnp.zeros_like(columns),
    )


def log_evidence(posterior: Posterior, noise: Array) -> Array:
    """How well the prior explains what was seen: its log marginal likelihood, up to what no prior can change.

    From the factor of `refresh`: −½ ln det(I + LᵀDL) = −Σ ln |R_ii|, and the last R_ii² is the least sum of squares.
    """
    return _log_evidence(posterior, _checked(noise))


@compiled
def _log_evidence(posterior: Posterior, noise: Array) -> Array:
    diagonals = jnp.abs(jnp.diagonal(_factors(posterior, noise), axis1=1, axis2=2))  # [K, r + 1]
    return -jnp.sum(jnp.log(diagonals[:, :-1])) - 0.5 * jnp.sum(diagonals[:, -1] ** 2)


def _factors(posterior: Posterior, noise: Array) -> Array:
    """The triangular factor of every arm's least-squares problem, right-hand side included: [K, r + 1, r + 1]."""

    def factor(prior_root, counts, sums):
        rank = prior_root.shape[1]
        counts = counts.astype(prior_root.dtype)
        weights = jnp.sqrt(counts) / noise
        average = sums / jnp.maximum(counts, 1.0)
        seen = weights[:, None] * jnp.concatenate([prior_root, average[:, None]], axis=1)
        return linalg.triangular_factor(jnp.concatenate([seen, jnp.eye(rank, rank + 1, dtype=seen.dtype)]))

    prior_root = as_root(posterior.prior_columns, posterior.counts.shape[1])
    return jax.vmap(factor)(prior_root, posterior.counts, posterior.sums - posterior.sums_error)


def _checked(noise) -> Array:
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    return argument(noise, float)
