"""The evidence of a kernel: how probable all rewards seen so far are, the curves integrated out.

Per (arm, z) the number of plays n, the sum of their rewards, hence the average ȳ, and the sum of squares within the
cell, W = Σ (y − ȳ)², are sufficient. With w = √n ȳ / σ and B = I + D^½ K D^½ / σ², D = diag(n), an arm's evidence is

    ln p(y) = −½ ln |B| − ½ wᵀ B⁻¹ w − ½ Σ W / σ² − ½ N ln(2πσ²),

exact, at the cost of one [G, G] inverse however many the observations, and with no jitter, because B >= I.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._compiled import linalg
from jaxband.kernels.base import Kernel, as_kernel
from jaxband.kernels.gram_matrices import gram_at


class PlayStatistics(NamedTuple):
    """All that the rewards of N plays say about curves and noise."""

    counts: Array  # [K, G]; how often each arm was played at each rest
    sums: Array  # [K, G]; the sum of the rewards of those plays
    squares: Array  # [K, G]; the sum of their squared distances from their own average; 0 will do for a known noise


def sufficient_statistics(
    arm: Array, z: Array, reward: Array, num_arms: int, z_max: int | Sequence[int]
) -> PlayStatistics:
    """The data of N plays, [N] each, in float64 on the host. With one `z_max` per arm, longer rests count as that.

    >>> data = sufficient_statistics([0, 0, 1], [2, 2, 0], [1.0, 3.0, 5.0], num_arms=2, z_max=2)
    >>> data.sums.tolist(), data.squares.tolist()
    ([[0.0, 0.0, 4.0], [5.0, 0.0, 0.0]], [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    """
    num_arms = checks.integer("num_arms", num_arms, minimum=1)
    limits = _limits(z_max, num_arms)
    num_points = max(limits) + 1
    arm, z, reward = (np.asarray(values) for values in (arm, z, reward))
    checks.shape("arm", arm, (None,), "[N]")
    if not arm.size:
        raise ValueError("arm must hold at least one play, got none; a kernel cannot be learned without rewards")
    for name, values in (("z", z), ("reward", reward)):
        checks.shape(name, values, arm.shape, "[N], as many as arm")
    checks.indices("arm", arm, num_arms, "the arms")
    checks.indices("z", z, num_points, "the grid; rests beyond z_max count as z_max")
    checks.finite("reward", reward)
    cell = np.ravel_multi_index((arm, np.minimum(z, limits[arm])), (num_arms, num_points))
    return PlayStatistics(
        *(table.reshape(num_arms, num_points) for table in _tables(cell, reward, num_arms * num_points))
    )


def log_marginal_likelihood(kernel: Kernel | Sequence[Kernel], data: PlayStatistics, noise: Array) -> Array:
    """ln p(all rewards) if the arms' curves are independent draws of GP(0, kernel); a scalar of the default precision.

    One kernel for all arms or one per arm, one `noise` σ or one per arm. Pure: batch it with `vmap`, compile it,
    differentiate it twice in the hyperparameters and the noise.

    >>> data = sufficient_statistics([0], [0], [0.0], num_arms=1, z_max=0)
    >>> from jaxband.kernels import Constant
    >>> round(float(log_marginal_likelihood(Constant(0.75), data, noise=0.5)), 4)  # the density of N(0, 1) at 0
    -0.9189
    """
    check_data(data)
    num_arms = np.shape(data.counts)[0]
    if isinstance(kernel, (list, tuple)):
        checks.shape("kernel", kernel, (num_arms,), "[K], one per arm")
        kernel = [as_kernel(k) for k in kernel]
    else:
        kernel = as_kernel(kernel)
    if np.ndim(noise):
        checks.shape("noise", noise, (num_arms,), "[K], one per arm")
    checks.positive("noise", noise)
    return _of_all_arms(kernel, data, noise)


@jax.jit
def _of_all_arms(kernel: Kernel | list[Kernel], data: PlayStatistics, noise: Array) -> Array:
    counts, sums, squares = (jnp.asarray(table, dtype=float) for table in data)
    num_arms, num_points = counts.shape
    noise = jnp.broadcast_to(jnp.asarray(noise, dtype=float), (num_arms,))
    x = jnp.arange(num_points, dtype=float)
    if isinstance(kernel, list):
        grams, axis = jnp.stack([gram_at(k, x) for k in kernel]), 0
    else:
        grams, axis = gram_at(kernel, x), None
    return jnp.sum(jax.vmap(_of_one_arm, in_axes=(axis, 0, 0, 0, 0))(grams, counts, sums, squares, noise))


def _of_one_arm(gram: Array, counts: Array, sums: Array, squares: Array, noise: Array) -> Array:
    weights = jnp.sqrt(counts) / noise
    inverse, log_determinant = linalg.inverse_and_log_determinant(
        jnp.eye(len(counts), dtype=gram.dtype) + weights[:, None] * gram * weights[None, :]
    )
    w = weights * sums / jnp.maximum(counts, 1.0)
    explained = jnp.sum(w[:, None] * inverse * w[None, :])
    unexplained = jnp.sum(squares) / noise**2 + jnp.sum(counts) * jnp.log(2.0 * jnp.pi * noise**2)
    return -0.5 * (log_determinant + explained + unexplained)


def check_data(data: PlayStatistics) -> None:
    """Tables of one shape, finite, counts and squares not negative."""
    checks.shape("data.counts", data.counts, (None, None), "[K, G]")
    for name in ("sums", "squares"):
        checks.shape(f"data.{name}", getattr(data, name), np.shape(data.counts), "[K, G], as counts")
    checks.non_negative("data.counts", data.counts)
    checks.finite("data.sums", data.sums)
    checks.non_negative("data.squares", data.squares)


def _limits(z_max, num_arms: int) -> np.ndarray:
    """z_max of every arm, [K]."""
    if np.ndim(z_max):
        checks.shape("z_max", z_max, (num_arms,), "[K], one per arm")
    else:
        z_max = [z_max] * num_arms
    return np.array([checks.integer("z_max", limit, minimum=0) for limit in z_max])


def _tables(cell: np.ndarray, reward: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
    """Counts, sums and squares, [size] each, of the rewards in every cell. Two passes, so that no digits cancel."""
    reward = np.asarray(reward, np.float64)
    counts = np.bincount(cell, minlength=size)
    sums = np.bincount(cell, weights=reward, minlength=size)
    averages = sums / np.maximum(counts, 1)
    return counts, sums, np.bincount(cell, weights=(reward - averages[cell]) ** 2, minlength=size)
