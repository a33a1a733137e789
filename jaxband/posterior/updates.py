"""Plays: one after the other (`observe`), or a batch of them (`condition`).

Observing y at grid point z of an arm, with v = root[z], u = root v, s² = v·v + σ²:

    mean ← mean + u (y − mean[z]) / s²          root ← root − u vᵀ / (s² + σ s)

This is the paper's posterior (section 3) in Potter's square-root form: exact, O(G·r), positive semi-definite by
construction.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._runtime.entry_points import argument, compiled, is_tracing
from jaxband.posterior.factors import refresh
from jaxband.posterior.state import Posterior

BEYOND_ANY_ROOT = 1e30
ONLY_IN_RANGE = {"mode": "drop", "wrap_negative_indices": False, "unique_indices": True}  # of writes to one row


def observe(
    posterior: Posterior, arm: Array, z: Array, reward: Array, noise: Array, *, compensate: bool = True
) -> Posterior:
    """The posterior after one play of `arm`, rested for `z` rounds, that paid `reward` ± `noise`.

    Without `compensate` rounding of mean and root is not made up for, which is faster. It matters after some 10,000
    plays of an arm: the variance at rests it never had is then 1e-4 off, and nearly 1e-3 after 100,000. `refresh` sheds
    it.
    """
    _check_plays(posterior, arm, z, reward, noise)
    arm, z = argument(arm, np.int32), argument(z, np.int32)
    return _observe(posterior, arm, z, argument(reward, float), argument(noise, float), bool(compensate))


@compiled(static=("compensate",))
def _observe(posterior: Posterior, arm: Array, z: Array, reward: Array, noise: Array, compensate: bool) -> Posterior:
    z = jnp.minimum(z, posterior.counts.shape[1] - 1)
    v = posterior.columns[arm, :, z]
    u = jnp.sum(posterior.columns[arm] * v[:, None], axis=0)
    predictive = posterior.variances[arm, z] + noise**2
    gain = (u * ((reward - posterior.means[arm, z]) / predictive))[None, :]
    change = -(v / (predictive + noise * jnp.sqrt(predictive)))[None, :, None] * u[None, None, :]
    if compensate:
        means, means_error = compensated_add(posterior.means, posterior.means_error, gain)
        columns, columns_error = compensated_add(posterior.columns, posterior.columns_error, change)
        means, columns = replace_row(posterior.means, arm, means), replace_row(posterior.columns, arm, columns)
        posterior = posterior._replace(
            means_error=replace_row(posterior.means_error, arm, means_error),
            columns_error=replace_row(posterior.columns_error, arm, columns_error),
        )
    else:
        means = add_to_row(posterior.means, arm, gain)
        columns = add_to_row(posterior.columns, arm, change, bound=BEYOND_ANY_ROOT)
    variance = jnp.sum(columns[arm] ** 2, axis=0)[None, :]
    total, total_error = compensated_add(posterior.sums[arm, z], posterior.sums_error[arm, z], reward)
    return posterior._replace(
        means=means,
        variances=replace_row(posterior.variances, arm, variance),
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
    if is_tracing(posterior, arms, z, rewards, noise):
        where = jnp.asarray(arms), jnp.minimum(jnp.asarray(z), posterior.counts.shape[1] - 1)
        new_counts = jnp.zeros_like(posterior.counts).at[where].add(1)
        new_sums = jnp.zeros_like(posterior.sums).at[where].add(jnp.asarray(rewards, posterior.sums.dtype))
    else:  # on the host, so that another number of plays compiles nothing
        where = np.asarray(arms), np.minimum(np.asarray(z), posterior.counts.shape[1] - 1)
        new_counts, new_sums = np.zeros(posterior.counts.shape, np.int32), np.zeros(posterior.sums.shape)
        np.add.at(new_counts, where, 1)
        np.add.at(new_sums, where, np.asarray(rewards, np.float64))
    return _added(posterior, new_counts, argument(new_sums, float), argument(noise, float))


@compiled
def _added(posterior: Posterior, new_counts: Array, new_sums: Array, noise: Array) -> Posterior:
    sums, sums_error = compensated_add(posterior.sums, posterior.sums_error, new_sums)
    counts = posterior.counts + new_counts
    return refresh(posterior._replace(counts=counts, sums=sums, sums_error=sums_error), noise)


def _check_plays(posterior, arm, z, reward, noise) -> None:
    checks.indices("arm", arm, posterior.counts.shape[0], "the arms")
    checks.rests("z", z)
    checks.finite("reward", reward)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)


def replace_row(table: Array, row: Array, new: Array) -> Array:
    """`table` with one row of `new`, which may be one row or as many; unchanged if `row` is out of range.

    On CPUs the compiled loop goes over all rows and skips the others, which is fastest there. On GPUs that would be
    most of what a round reads and writes, so there the row alone is.
    """

    def among_all():
        return jnp.where(_is_row(table, row), new, table)

    def alone():
        rows = jax.lax.dynamic_index_in_dim(new, row) if new.shape[0] > 1 else new
        return table.at[row].set(rows[0], **ONLY_IN_RANGE)

    return jax.lax.platform_dependent(cpu=among_all, default=alone)


def add_to_row(table: Array, row: Array, increment: Array, bound: float | None = None) -> Array:
    """`table` with `increment` [1, ...] added to one row, written like that of `replace_row`.

    A `bound` that is never met keeps the loop vectorised on CPUs: without it there is so little to do in it that LLVM
    unrolls even 40 points, twice as slow.
    """

    def among_all():
        new = table + increment
        return jnp.where(_is_row(table, row), new if bound is None else jnp.clip(new, -bound, bound), table)

    def alone():
        return table.at[row].add(increment[0], **ONLY_IN_RANGE)

    return jax.lax.platform_dependent(cpu=among_all, default=alone)


def _is_row(table: Array, row: Array) -> Array:
    """[K, 1, ...]; which rows of the table are `row`."""
    chosen = np.arange(table.shape[0], dtype=np.int32) == row
    return jnp.expand_dims(chosen, tuple(range(1, table.ndim)))


def compensated_add(total: Array, error: Array, increment: Array) -> tuple[Array, Array]:
    """Kahan's sum: the new total and what rounding added to it."""
    corrected = increment - error
    new = total + corrected
    return new, (new - total) - corrected
