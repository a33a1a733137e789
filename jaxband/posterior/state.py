"""What is believed about every arm's curve: a mean and a square root of the covariance, counts and sums."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxband._compiled.batching import take_per_row

SHORTEST_VECTOR = 32  # LLVM unrolls shorter inner loops instead of vectorising them: several times slower


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
        return as_root(self.columns, self.counts.shape[-1])


def padded(num_points: int) -> int:
    """H for a grid of G points."""
    width = num_points + -num_points % 8
    return max(width, SHORTEST_VECTOR) if width > 16 else width


def as_columns(root: Array) -> Array:
    """[K, r, H] from [K, G, r]."""
    num_points = root.shape[1]
    return jnp.swapaxes(jnp.pad(root, ((0, 0), (0, padded(num_points) - num_points), (0, 0))), 1, 2)


def as_root(columns: Array, num_points: int) -> Array:
    """[..., G, r] from [..., r, H]."""
    return columns[..., :num_points].swapaxes(-1, -2)


def moments_at(posterior: Posterior, z: Array) -> tuple[Array, Array]:
    """Mean and variance at the arms' rests, [K] each."""
    moments = take_per_row(posterior.means, z), take_per_row(posterior.variances, z)
    return jax.lax.optimization_barrier(moments)  # a few per cent faster than look-ups merged with what uses them


def root_at(posterior: Posterior, z: Array) -> Array:
    """The root's rows at n rests of every arm, [K, n, r] for z [K, n]."""
    return jnp.swapaxes(jnp.take_along_axis(posterior.columns, z[:, None, :], axis=2), 1, 2)
