"""Exact Gaussian-process posteriors of all recovery curves, as a mean and a square root of the covariance.

Per arm, covariance = root rootᵀ. Observing y at grid point z, with v = root[z], u = root v, s² = v·v + σ²:

    mean ← mean + u (y − mean[z]) / s²          root ← root − u vᵀ / (s² + σ s)

This is the paper's posterior (section 3) in Potter's square-root form: exact, O(G·r), positive semi-definite by
construction. Counts and sums per (arm, z) are sufficient and are the state of record; `refresh` rebuilds mean and
root from them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks, linalg, prng
from jaxband.kernels.base import Kernel, as_kernel, exact_gram, is_traced
from jaxband.lanes import of_each_row

RANK_MULTIPLE = 4  # ranks are rounded up, so that a sweep over lengthscales meets few shapes
SHORTEST_VECTOR = 32  # LLVM unrolls shorter inner loops instead of vectorising them: several times slower
BEYOND_ANY_ROOT = 1e30


class Posterior(NamedTuple):
    """What is believed about every arm's curve.

    Mean, variance and root are kept the way a compiler likes them: as vectors padded from G to H points. Read them by
    the properties.
    """

    means: Array  # [K, H]
    variances: Array  # [K, H]
    columns: Array  # [K, r, H]; the columns of the root
    counts: Array  # [K, G] int32; how often each arm was played at each rest
    sums: Array  # [K, G]; the sum of the rewards of those plays
    means_error: Array  # [K, H]; what rounding has added to means (Kahan), so that long float32 runs lose no digits
    sums_error: Array  # [K, G]; the same of sums
    columns_error: Array  # [K, r, H]; the same of columns
    prior_columns: Array  # [K, r, H]; columns before any observation

    @property
    def mean(self) -> Array:
        """[K, G]."""
        return self.means[..., : self.counts.shape[-1]]

    @property
    def variance(self) -> Array:
        """[K, G]; the diagonal of the covariance."""
        return self.variances[..., : self.counts.shape[-1]]

    @property
    def root(self) -> Array:
        """[K, G, r]; covariance = root @ root.T."""
        return _as_root(self.columns, self.counts.shape[-1])


def prior(
    kernel: Kernel | Sequence[Kernel], num_arms: int, z_max: int | Sequence[int], *, tolerance: float = 1e-12
) -> Posterior:
    """The posterior before any play: mean zero and, per arm, a rank-revealing root of the kernel's Gram matrix.

    One kernel for all arms, or one per arm; one `z_max`, or one per arm (a curve is constant beyond its own).
    Directions whose variance is below `tolerance` of the largest are dropped: such a variance w cannot be seen
    while n·w ≪ σ² for all counts n.

    >>> from jaxband.kernels import SquaredExponential
    >>> prior(SquaredExponential(lengthscale=5.0), num_arms=10, z_max=30).root.shape
    (10, 31, 20)
    """
    num_arms = checks.whole_number("num_arms", num_arms, minimum=1)
    checks.non_negative("tolerance", tolerance)
    if isinstance(kernel, (list, tuple)) or np.ndim(z_max):
        roots = [_root(exact_gram(k, x), tolerance) for k, x in _per_arm(kernel, num_arms, z_max)]
    else:
        ((alone, x),) = _per_arm(kernel, 1, z_max)
        roots = [_root(exact_gram(alone, x), tolerance)] * num_arms
    rank = max(1, *(root.shape[1] for root in roots))  # a kernel may be 0 on the whole grid
    rank += -rank % RANK_MULTIPLE
    padded = np.stack([np.pad(root, ((0, 0), (0, rank - root.shape[1]))) for root in roots])
    columns = _as_columns(jnp.asarray(padded, dtype=float))
    zeros = jnp.zeros(padded.shape[:2])
    no_mean = jnp.zeros((num_arms, columns.shape[-1]))
    return Posterior(
        means=no_mean,
        variances=jnp.sum(columns**2, axis=1),
        columns=columns,
        counts=zeros.astype(jnp.int32),
        sums=zeros,
        means_error=no_mean,
        sums_error=zeros,
        columns_error=jnp.zeros_like(columns),
        prior_columns=columns,
    )


def observe(
    posterior: Posterior, arm: Array, z: Array, reward: Array, noise: Array, *, compensate: bool = True
) -> Posterior:
    """The posterior after one play of `arm`, rested for `z` rounds, that paid `reward` ± `noise`.

    Without `compensate` rounding of mean and root is not made up for, which is faster. It matters after some 10,000
    plays of an arm: the variance at rests it never had is then 1e-4 off, and nearly 1e-3 after 100,000. `refresh` sheds
    it.
    """
    _check_plays(posterior, arm, z, reward, noise)
    arm, z = jnp.asarray(arm, jnp.int32), jnp.asarray(z, jnp.int32)
    v = posterior.columns[arm, :, z]
    u = jnp.sum(posterior.columns[arm] * v[:, None], axis=0)
    predictive = posterior.variances[arm, z] + noise**2
    gain = (u * ((reward - posterior.means[arm, z]) / predictive))[None, :]
    change = -(v / (predictive + noise * jnp.sqrt(predictive)))[None, :, None] * u[None, None, :]
    if compensate:
        means, means_error = _add(posterior.means, posterior.means_error, gain)
        columns, columns_error = _add(posterior.columns, posterior.columns_error, change)
        posterior = posterior._replace(
            means_error=_replace_row(posterior.means_error, arm, means_error),
            columns_error=_replace_row(posterior.columns_error, arm, columns_error),
        )
    else:
        means, columns = posterior.means + gain, posterior.columns + change
    # The bounds are never met. Without them the loop is so cheap that LLVM unrolls even 40 points: twice as slow.
    columns = _replace_row(posterior.columns, arm, jnp.clip(columns, -BEYOND_ANY_ROOT, BEYOND_ANY_ROOT))
    variance = jnp.sum(columns[arm] ** 2, axis=0)[None, :]
    total, total_error = _add(posterior.sums[arm, z], posterior.sums_error[arm, z], reward)
    return posterior._replace(
        means=_replace_row(posterior.means, arm, means),
        variances=_replace_row(posterior.variances, arm, variance),
        columns=columns,
        counts=posterior.counts.at[arm, z].add(1),
        sums=posterior.sums.at[arm, z].set(total),
        sums_error=posterior.sums_error.at[arm, z].set(total_error),
    )


def condition(posterior: Posterior, arms: Array, z: Array, rewards: Array, noise: Array) -> Posterior:
    """The posterior after a batch of plays, [N] each, in any order; as cheap as one `refresh`."""
    checks.shape("arms", arms, (None,), "[N]")
    for name, value in (("z", z), ("rewards", rewards)):
        checks.shape(name, value, np.shape(arms), "[N]")
    _check_plays(posterior, arms, z, rewards, noise)
    arms, z, rewards = jnp.asarray(arms), jnp.asarray(z), jnp.asarray(rewards, posterior.sums.dtype)
    new_sums = jnp.zeros_like(posterior.sums).at[arms, z].add(rewards)
    sums, sums_error = _add(posterior.sums, posterior.sums_error, new_sums)
    counts = posterior.counts.at[arms, z].add(1)
    return refresh(posterior._replace(counts=counts, sums=sums, sums_error=sums_error), noise)


def refresh(posterior: Posterior, noise: Array) -> Posterior:
    """Mean and root rebuilt from counts and sums, free of the rounding that many single observations gather.

    The curve is L w, L the prior root and w standard normal, so that the posterior is a least-squares problem whose
    rows are √n/σ · (L w − ȳ), one per rest, and w itself. With its triangular factor R and right-hand side q:
    root = L R⁻¹, mean = root q. An orthogonal factorisation is accurate where the normal equations (I + LᵀDL) and one
    observation per rest are not, once some rests are seen 10⁵ times and others never.
    """
    factors = _factors(posterior, noise)  # [K, r + 1, r + 1]
    prior_root = _as_root(posterior.prior_columns, posterior.counts.shape[1])
    root = jax.vmap(lambda prior, factor: linalg.divide_by_triangle(prior, factor[:-1, :-1]))(prior_root, factors)
    mean = jnp.sum(root * factors[:, None, :-1, -1], axis=2)
    num_points = mean.shape[1]
    means, columns = jnp.pad(mean, ((0, 0), (0, _padded(num_points) - num_points))), _as_columns(root)
    return posterior._replace(
        means=means,
        variances=jnp.sum(columns**2, axis=1),
        columns=columns,
        means_error=jnp.zeros_like(means),
        columns_error=jnp.zeros_like(columns),
    )


def evidence(posterior: Posterior, noise: Array) -> Array:
    """How well the prior explains what was seen: its log marginal likelihood, up to what no prior can change.

    From the factor of `refresh`: −½ ln det(I + LᵀDL) = −Σ ln |R_ii|, and the last R_ii² is the least sum of squares.
    """
    diagonals = jnp.abs(jnp.diagonal(_factors(posterior, noise), axis1=1, axis2=2))  # [K, r + 1]
    return -jnp.sum(jnp.log(diagonals[:, :-1])) - 0.5 * jnp.sum(diagonals[:, -1] ** 2)


def _factors(posterior: Posterior, noise: Array) -> Array:
    """The triangular factor of every arm's least-squares problem, right-hand side included: [K, r + 1, r + 1]."""
    checks.scalar("noise", noise)
    checks.positive("noise", noise)

    def factor(prior_root, counts, sums):
        rank = prior_root.shape[1]
        counts = counts.astype(prior_root.dtype)
        weights = jnp.sqrt(counts) / noise
        average = sums / jnp.maximum(counts, 1.0)
        seen = weights[:, None] * jnp.concatenate([prior_root, average[:, None]], axis=1)
        return linalg.triangular_factor(jnp.concatenate([seen, jnp.eye(rank, rank + 1, dtype=seen.dtype)]))

    prior_root = _as_root(posterior.prior_columns, posterior.counts.shape[1])
    return jax.vmap(factor)(prior_root, posterior.counts, posterior.sums - posterior.sums_error)


def mean(posterior: Posterior) -> Array:
    """μ_j(z), [K, G]."""
    return posterior.mean


def variance(posterior: Posterior) -> Array:
    """σ_j²(z), [K, G]; never negative."""
    return posterior.variance


def covariance(posterior: Posterior, arm: int) -> Array:
    """k_j(z, z'), [G, G]."""
    checks.indices("arm", arm, posterior.counts.shape[0], "the arms")
    root = posterior.root[arm]
    return _matmul(root, root.T)


def variance_of_sum(posterior: Posterior, arm: int, z: Array) -> Array:
    """The variance of f_arm(z_1) + … + f_arm(z_n), repeats of a z allowed: ‖Σ root[z]‖², with no covariance matrix."""
    checks.indices("arm", arm, posterior.counts.shape[0], "the arms")
    checks.indices("z", z, posterior.counts.shape[1], "the grid")
    return jnp.sum(jnp.sum(posterior.root[arm][jnp.asarray(z)], axis=0) ** 2)


def sample(key: Array, posterior: Posterior) -> Array:
    """One joint draw of all curves, [K, G]: mean + root ε."""
    root = posterior.root
    shocks = prng.normal(key, root.shape[::2])
    return posterior.mean + jax.vmap(_matvec)(root, shocks)


def root_at(posterior: Posterior, z: Array) -> Array:
    """The root's rows at n rests of every arm, [K, n, r] for z [K, n]."""
    return jnp.swapaxes(jnp.take_along_axis(posterior.columns, z[:, None, :], axis=2), 1, 2)


def moments_at(posterior: Posterior, z: Array) -> tuple[Array, Array]:
    """Mean and variance at the arms' rests, [K] each."""
    moments = of_each_row(posterior.means, z), of_each_row(posterior.variances, z)
    return jax.lax.optimization_barrier(moments)  # a few per cent faster than look-ups merged with what uses them


def _padded(num_points: int) -> int:
    """H for a grid of G points."""
    width = num_points + -num_points % 8
    return max(width, SHORTEST_VECTOR) if width > 16 else width


def _as_columns(root: Array) -> Array:
    """[K, r, H] from [K, G, r]."""
    num_points = root.shape[1]
    padded = jnp.pad(root, ((0, 0), (0, _padded(num_points) - num_points), (0, 0)))
    return jnp.swapaxes(padded, 1, 2)


def _as_root(columns: Array, num_points: int) -> Array:
    """[..., G, r] from [..., r, H]."""
    return columns[..., :num_points].swapaxes(-1, -2)


def _replace_row(table: Array, row: Array, new: Array) -> Array:
    """`table` with one row of `new`, which may be one row or as many. The compiled loop skips the other rows."""
    chosen = np.arange(table.shape[0], dtype=np.int32) == row
    return jnp.where(jnp.expand_dims(chosen, tuple(range(1, table.ndim))), new, table)


def _per_arm(kernel, num_arms, z_max):
    """(kernel, grid points) of every arm; points beyond an arm's own z_max are that z_max again."""
    kernels = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel] * num_arms
    if len(kernels) != num_arms:
        raise ValueError(f"kernel must be one kernel or {num_arms} of them, one per arm, got {len(kernels)}")
    kernels = [as_kernel(k) for k in kernels]
    if any(is_traced(k) for k in kernels):
        raise TypeError("kernel must be concrete: its root fixes a shape; build the prior or the policy outside of jit")
    limits = list(z_max) if np.ndim(z_max) == 1 else [z_max] * num_arms
    if len(limits) != num_arms:
        raise ValueError(f"z_max must be one number or {num_arms} of them, one per arm, got {len(limits)}")
    limits = [checks.whole_number("z_max", limit, minimum=0) for limit in limits]
    grid = np.arange(max(limits) + 1)
    return [(k, np.minimum(grid, limit)) for k, limit in zip(kernels, limits, strict=True)]


def _root(matrix: np.ndarray, tolerance: float) -> np.ndarray:
    """Columns √w·q of the eigenvectors with w > tolerance · max w, largest first."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -1e-8 * abs(values[-1]):
        raise ValueError(f"kernel must be positive semi-definite on the grid, got an eigenvalue {values[0]:.3g}")
    keep = values > tolerance * values[-1]
    return (vectors[:, keep] * np.sqrt(values[keep]))[:, ::-1]


def _check_plays(posterior, arm, z, reward, noise) -> None:
    checks.indices("arm", arm, posterior.counts.shape[0], "the arms")
    checks.indices("z", z, posterior.counts.shape[1], "the grid; rests beyond z_max count as z_max")
    checks.finite("reward", reward)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)


def _add(total: Array, error: Array, increment: Array) -> tuple[Array, Array]:
    """Kahan's sum: the new total and what rounding added to it."""
    corrected = increment - error
    new = total + corrected
    return new, (new - total) - corrected


def _matvec(matrix: Array, vector: Array) -> Array:
    return jnp.dot(matrix, vector, precision=jax.lax.Precision.HIGHEST)


def _matmul(left: Array, right: Array) -> Array:
    return jnp.dot(left, right, precision=jax.lax.Precision.HIGHEST)
