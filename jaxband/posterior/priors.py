"""Posteriors before any play: a rank-revealing root of the kernel's Gram matrix, made in float64 on the host."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._runtime.entry_points import argument, compiled
from jaxband.kernels.base import Kernel, as_kernel, is_traced
from jaxband.kernels.gram_matrices import gram_at, gram_float64
from jaxband.posterior.state import Posterior, as_columns

RANK_MULTIPLE = 4  # ranks are rounded up, so that lengthscales near each other share a shape
TOLERANCE = 1e-12  # of the largest eigenvalue


def prior(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    *,
    rank: int | None = None,
    tolerance: float = TOLERANCE,
) -> Posterior:
    """The posterior before any play: mean zero and, per arm, a rank-revealing root of the kernel's Gram matrix.

    One kernel for all arms, or one per arm; one `z_max`, or one per arm (a curve is constant beyond its own).
    Directions whose variance is below `tolerance` of the largest are dropped: such a variance w cannot be seen
    while n·w ≪ σ² for all counts n.

    `rank` fixes the number of columns of the root (z_max + 1 is always enough). Then hyperparameters may be traced:
    the root is made inside your `jit` and `vmap`, in the precision of JAX.

    >>> from jaxband.kernels import SquaredExponential
    >>> prior(SquaredExponential(lengthscale=5.0), num_arms=10, z_max=30).root.shape
    (10, 31, 20)
    """
    num_arms = checks.integer("num_arms", num_arms, minimum=1)
    checks.non_negative("tolerance", tolerance)
    rank = None if rank is None else checks.integer("rank", rank, minimum=1)
    differ = isinstance(kernel, (list, tuple)) or np.ndim(z_max)
    pairs = _per_arm(kernel, num_arms if differ else 1, z_max)
    if any(is_traced(k) for k, _ in pairs):
        root = jnp.stack([_traced_root(k, x, rank) for k, x in pairs])
    else:
        root = _padded_to([_root(gram_float64(k, x), tolerance) for k, x in pairs], rank)
    return _without_plays(argument(root, float), num_arms)


@compiled(static=("num_arms",))
def _without_plays(root: Array, num_arms: int) -> Posterior:
    """The posterior whose roots are [K, G, r], or [1, G, r] for all arms."""
    columns = as_columns(jnp.broadcast_to(root, (num_arms, *root.shape[1:])))
    zeros = jnp.zeros((num_arms, root.shape[1]), root.dtype)
    no_mean = jnp.zeros((num_arms, columns.shape[-1]), root.dtype)
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


def rank(kernel: Kernel, z_max: int) -> int:
    """How many columns the root of `prior` has for this kernel, unless `rank` says otherwise."""
    return _rounded(max(1, _root(gram_float64(as_kernel(kernel), np.arange(z_max + 1)), TOLERANCE).shape[1]))


def _rounded(needed: int) -> int:
    return needed + -needed % RANK_MULTIPLE


def _per_arm(kernel, num_arms, z_max):
    """(kernel, grid points) of every arm; points beyond an arm's own z_max are that z_max again."""
    kernels = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel] * num_arms
    if len(kernels) != num_arms:
        raise ValueError(f"kernel must be one kernel or {num_arms} of them, one per arm, got {len(kernels)}")
    kernels = [as_kernel(k) for k in kernels]
    limits = list(z_max) if np.ndim(z_max) == 1 else [z_max] * num_arms
    if len(limits) != num_arms:
        raise ValueError(f"z_max must be one number or {num_arms} of them, one per arm, got {len(limits)}")
    limits = [checks.integer("z_max", limit, minimum=0) for limit in limits]
    grid = np.arange(max(limits) + 1)
    return [(k, np.minimum(grid, limit)) for k, limit in zip(kernels, limits, strict=True)]


def _padded_to(roots: list[np.ndarray], rank: int | None) -> np.ndarray:
    """Roots [G, r] side by side, with columns of zeros: [n, G, rank]."""
    needed = max(1, *(root.shape[1] for root in roots))  # a kernel may be 0 on the whole grid
    if rank is None:
        rank = _rounded(needed)
    elif rank < needed:
        raise ValueError(f"rank must be >= {needed} for this kernel and grid, got {rank}; z_max + 1 is always enough")
    return np.stack([np.pad(root, ((0, 0), (0, rank - root.shape[1]))) for root in roots])


def _traced_root(kernel: Kernel, x: np.ndarray, rank: int | None) -> Array:
    """A root [G, rank] of a kernel whose hyperparameters are only known inside a trace."""
    if rank is None:
        what = "kernel must be concrete, because its root fixes a shape, got traced hyperparameters"
        raise TypeError(f"{what}; give rank= (z_max + 1 is always enough), or build the policy outside of jit")
    values, vectors = jnp.linalg.eigh(gram_at(kernel, jnp.asarray(x, dtype=float)))
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :])[:, ::-1][:, :rank]
    return jnp.pad(root, ((0, 0), (0, rank - root.shape[1])))


def _root(matrix: np.ndarray, tolerance: float) -> np.ndarray:
    """Columns √w·q of the eigenvectors with w > tolerance · max w, largest first."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -1e-8 * abs(values[-1]):
        raise ValueError(f"kernel must be positive semi-definite on the grid, got an eigenvalue {values[0]:.3g}")
    keep = values > tolerance * values[-1]
    return (vectors[:, keep] * np.sqrt(values[keep]))[:, ::-1]
