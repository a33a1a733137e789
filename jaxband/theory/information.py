"""How much plays can tell about a curve: information gain and its maximum γ_N (section 5 of the paper).

N plays with n_z of them at rest z, K the kernel's Gram matrix on the grid and D = diag(n), tell about the curve

    I(n) = ½ log det(I + σ⁻² D^½ K D^½) = ½ Σ_t log(1 + σ⁻² σ²(z_t; t−1)),        γ_N = max { I(n): Σ_z n_z = N }.

The greedy choice, always where the variance is largest, gives at least (1 − 1/e) γ_N, because I is monotone and
submodular. I is also concave in real-valued n, which bounds γ_N from above. All in float64 on the host.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxband import checks
from jaxband.kernels.base import Kernel, as_kernel
from jaxband.kernels.gram_matrices import gram_float64

MAX_MULTISETS = 200_000
MAX_STEPS = 2000
GAP = 1e-4  # of a bound on γ_N, relative


class GreedyPlays(NamedTuple):
    """N plays, each at the rest with the largest variance."""

    z: np.ndarray  # [N]
    gain: np.ndarray  # [N]; information gain of the first 1, 2, …, N of them


def information_gain(kernel: Kernel, counts: ArrayLike, noise: float) -> float:
    """I(n), of `counts` plays at each rest, [G], in nats. They need not be whole.

    >>> from jaxband.kernels import Constant
    >>> round(information_gain(Constant(1.0), counts=[2, 1], noise=1.0), 4)  # ½ log(1 + 3)
    0.6931
    """
    checks.shape("counts", counts, (None,), "[G]")
    checks.non_negative("counts", counts)
    matrix = _gram(kernel, len(np.asarray(counts)) - 1, noise)
    weights = np.sqrt(np.asarray(counts, np.float64)) / noise
    return 0.5 * float(np.linalg.slogdet(np.eye(len(weights)) + weights[:, None] * matrix * weights)[1])


def greedy_information_gain(kernel: Kernel, z_max: int, noise: float, num_plays: int) -> GreedyPlays:
    """Plays on {0..z_max}, repeats allowed, whose gain is between (1 − 1/e) γ_n and γ_n for every n ≤ N."""
    num_plays = checks.integer("num_plays", num_plays, minimum=0)
    covariance = _gram(kernel, z_max, noise)
    z, gain = np.zeros(num_plays, int), np.zeros(num_plays)
    for n in range(num_plays):
        z[n] = np.argmax(np.diagonal(covariance))
        column = covariance[:, z[n]]
        gain[n] = 0.5 * np.log1p(max(column[z[n]], 0.0) / noise**2)
        covariance = covariance - np.outer(column, column) / (column[z[n]] + noise**2)
    return GreedyPlays(z, np.cumsum(gain))


def maximal_information_gain(kernel: Kernel, z_max: int, noise: float, num_plays: int) -> float:
    """γ_N by trying all multisets of N rests; for small grids."""
    num_plays = checks.integer("num_plays", num_plays, minimum=0)
    matrix = _gram(kernel, z_max, noise)
    count = math.comb(z_max + num_plays, num_plays)
    if count > MAX_MULTISETS:
        raise ValueError(
            f"{count:,} multisets of {num_plays} rests out of {z_max + 1} are too many to try; the limit is "
            f"{MAX_MULTISETS:,}. greedy_information_gain and information_gain_bound enclose the maximum"
        )
    best = 0.0
    for z in itertools.combinations_with_replacement(range(z_max + 1), num_plays):
        best = max(best, np.linalg.slogdet(np.eye(num_plays) + matrix[np.ix_(z, z)] / noise**2)[1])
    return 0.5 * float(best)


def information_gain_bound(kernel: Kernel, z_max: int, noise: float, num_plays: float) -> float:
    """An upper bound on γ_N that is concave in N up to its tolerance; N need not be whole.

    It is γ̄_N = max I(n) over real n ≥ 0 with Σ n = N, from above: a concave function lies below its tangents, and the
    slopes of I are ½ σ⁻² σ²(z; n), so that for every n

        γ_N ≤ γ̄_N ≤ I(n) + ½ σ⁻² (N max_z σ²(z; n) − Σ_z n_z σ²(z; n)).

    The iteration n_z ∝ n_z σ²(z; n) brings the gap to 1e-4 of the value. γ̄ is concave in N, so that plays spread
    over K arms satisfy Σ_j γ_{N_j} ≤ K γ̄_{T/K}, which is less than the paper's K γ_T.

    >>> from jaxband.kernels import SquaredExponential
    >>> round(information_gain_bound(SquaredExponential(4.0), z_max=30, noise=0.1, num_plays=1000), 1)
    44.7
    """
    checks.non_negative("num_plays", num_plays)
    values, vectors = np.linalg.eigh(_gram(kernel, z_max, noise))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    counts, bound = np.full(len(root), num_plays / len(root)), math.inf
    for _ in range(MAX_STEPS):
        gain, variance = _gain_and_variance(root, counts, noise)
        slope, spread = 0.5 * variance / noise**2, counts @ variance
        bound = min(bound, gain + num_plays * slope.max() - counts @ slope)
        if bound - gain <= GAP * gain or spread <= 0.0:
            break
        counts = counts * variance * (num_plays / spread)
    return float(bound)


def _gain_and_variance(root: np.ndarray, counts: np.ndarray, noise: float) -> tuple[float, np.ndarray]:
    """I(n) and σ²(z; n), [G]. With K = L Lᵀ and C Cᵀ = I + σ⁻² Lᵀ D L they are Σ log C_ii and ‖C⁻¹ l_z‖²."""
    factor = np.linalg.cholesky(np.eye(len(root)) + root.T @ (counts[:, None] * root) / noise**2)
    return float(np.log(np.diagonal(factor)).sum()), (np.linalg.solve(factor, root.T) ** 2).sum(axis=0)


def _gram(kernel: Kernel, z_max: int, noise: float) -> np.ndarray:
    z_max = checks.integer("z_max", z_max, minimum=0)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    return gram_float64(as_kernel(kernel), np.arange(z_max + 1))
