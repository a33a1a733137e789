"""Choosing among kernels, and telling a recovery effect from none.

Kernels are ranked by their evidence less ½ k ln N, k the number of hyperparameters learned from N rewards (Schwarz).
Such weights have no error rate, so that "these arms do not recover at all" is tested on its own, by
`no_recovery_p_value`.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxband import checks
from jaxband.fit.evidence import PlayStatistics, check_data
from jaxband.fit.optimize import Fit, fit_statistics
from jaxband.kernels import Constant, Kernel, Product, SquaredExponential, Sum
from jaxband.kernels.base import as_kernel
from jaxband.kernels.gram_matrices import gram_float64

LENGTHSCALES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of the test's alternatives, in grids
NUM_AMPLITUDES = 5
LARGEST_AMPLITUDE = 100.0  # variance of the curves over that of the noise; what is larger yet is found all the same


class KernelScore(NamedTuple):
    """One kernel of a comparison."""

    name: str
    fit: Fit
    evidence: float
    num_hyperparameters: int
    penalised: float  # evidence − ½ k ln N
    weight: float  # the share of e^penalised


class Comparison(NamedTuple):
    """Kernels, best first, and whether there is any recovery effect."""

    rows: list[KernelScore]
    no_recovery_p_value: float  # the probability of rewards as uneven as these if no arm's reward depended on its rest

    def recovers(self, level: float = 0.05) -> bool:
        """Do rewards depend on the rest? Says yes to a share `level` of problems in which they do not."""
        return self.no_recovery_p_value <= level

    def __str__(self) -> str:
        width = max(len("kernel"), *(len(row.name) for row in self.rows))
        lines = [f"{'kernel':<{width}}  {'evidence':>10}  {'k':>2}  {'penalised':>10}  {'weight':>6}"]
        for row in self.rows:
            lines.append(
                f"{row.name:<{width}}  {row.evidence:>10.2f}  {row.num_hyperparameters:>2}  {row.penalised:>10.2f}"
                f"  {row.weight:>6.3f}"
            )
        return "\n".join([*lines, f"no recovery effect: p = {self.no_recovery_p_value:.3g}"])


def compare(
    kernels: Mapping[str, Kernel] | Sequence[Kernel],
    data: PlayStatistics,
    noise: float,
    *,
    learn_noise: bool = False,
    seed: int = 0,
    num_draws: int = 999,
    **options,
) -> Comparison:
    """Kernels fitted to `data` (see `sufficient_statistics`), best first, with weights; and a test of no recovery.

    The flat kernel is added if no `Constant` is among them. Options as in `fit_statistics`; `num_draws` as in
    `no_recovery_p_value`.

    >>> from jaxband.fit import sufficient_statistics
    >>> from jaxband.kernels import Linear
    >>> rewards = [0.1, -0.1, 0.0, 0.1, 1.0, 2.1, -0.9, -2.0]
    >>> data = sufficient_statistics([0, 1, 2, 3] * 2, [0] * 4 + [1] * 4, rewards, num_arms=4, z_max=1)
    >>> comparison = compare([Linear()], data, noise=0.1)
    >>> [row.name for row in comparison.rows], comparison.recovers()
    (['Linear', 'flat'], True)
    """
    check_data(data)
    fits = {
        name: fit_statistics(kernel, data, noise, learn_noise=learn_noise, seed=seed, **options)
        for name, kernel in _named(kernels, data, noise).items()
    }
    p_value = no_recovery_p_value(data, None if learn_noise else noise, num_draws=num_draws, seed=seed)
    return Comparison(_ranked(fits, np.sum(data.counts), learn_noise), p_value)


def no_recovery_p_value(data: PlayStatistics, noise: float | None, *, num_draws: int = 999, seed: int = 0) -> float:
    """The p-value of "every arm's curve is a constant", exact for normal noise, known or (None) unknown.

    The statistic is the largest restricted likelihood ratio of curves level + GP(0, τσ²k) against their levels alone,
    over a grid of amplitudes τ and of lengthscales of a squared exponential k. Its distribution, given the counts,
    depends on neither the levels nor σ if the arms are flat, and is drawn `num_draws` times.
    """
    check_data(data)
    num_draws = checks.integer("num_draws", num_draws, minimum=19, remedy="fewer cannot reach a level of 5 %")
    counts, sums, squares = (np.asarray(table, np.float64) for table in data)
    tested = np.sum(counts > 0, axis=1) > 1  # an arm seen at one rest tells of noise only
    spare = np.sum(counts) - np.sum(counts > 0)
    w = _weighted_residuals(counts[tested], sums[tested])
    if noise is not None:
        checks.scalar("noise", noise)
        checks.positive("noise", noise)
        w, within, freedom = w / noise, None, None
    else:
        within, freedom = np.sum(squares), spare + np.sum(counts[tested] > 0) - np.sum(tested)
    if not tested.any() or (noise is None and np.sum(w**2) + within <= 1e-24 * np.sum(sums**2)):
        return 1.0  # nothing to see, or nothing but constants
    rng = np.random.default_rng(seed)
    shocks = np.where(counts[tested] > 0, rng.normal(size=(num_draws, *w.shape)), 0.0)
    if noise is None:
        within = np.concatenate([[within], 2.0 * rng.gamma(0.5 * spare, size=num_draws)])
    statistics = _largest_ratios(np.concatenate([w[None], shocks]), counts[tested], within, freedom)
    return float(np.mean(statistics >= statistics[0]))


def _weighted_residuals(counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """√n (ȳ − the arm's average), [K, G]."""
    levels = np.sum(sums, axis=1) / np.sum(counts, axis=1)
    return np.sqrt(counts) * np.where(counts > 0, sums / np.maximum(counts, 1) - levels[:, None], 0.0)


def _largest_ratios(w: np.ndarray, counts: np.ndarray, within: np.ndarray | None, freedom: int | None) -> np.ndarray:
    """The statistic [D] of weighted averages w [D, K, G]: of noise 1, or of one estimated with squares `within` [D]."""
    num_arms, num_points = counts.shape
    flat, flat_log = _restricted(np.zeros((num_points, num_points)), counts)
    flat_squares = _quadratic(flat, w)
    amplitudes = np.geomspace(num_arms / np.sum(counts), LARGEST_AMPLITUDE, NUM_AMPLITUDES)
    largest = np.full(len(w), -np.inf)
    grams = [gram_float64(SquaredExponential(share * num_points), np.arange(num_points)) for share in LENGTHSCALES]
    for gram, amplitude in itertools.product(grams, amplitudes):
        curved, curved_log = _restricted(amplitude * gram, counts)
        squares = _quadratic(curved, w)
        if within is None:
            gain = flat_squares - squares
        else:
            gain = freedom * np.log((flat_squares + within) / (squares + within))
        largest = np.maximum(largest, 0.5 * (gain - (curved_log - flat_log)))
    return largest


def _restricted(gram: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, float]:
    """The restricted likelihood of w ~ N(level √n, B), B = I + D^½ K D^½: its matrix [K, G, G] and ln-determinants.

    With x = √n and a = B⁻¹x: −2 ln p = wᵀ (B⁻¹ − a aᵀ / xᵀa) w + ln |B| + ln xᵀa, summed over the arms.
    """
    x = np.sqrt(counts)
    matrix = np.eye(counts.shape[1]) + x[:, :, None] * gram * x[:, None, :]
    inverse = np.linalg.inv(matrix)
    a = np.einsum("kij,kj->ki", inverse, x)
    information = np.sum(x * a, axis=1)
    projected = inverse - a[:, :, None] * a[:, None, :] / information[:, None, None]
    return projected, np.sum(np.linalg.slogdet(matrix)[1] + np.log(information))


def _quadratic(matrices: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Σ_k w_kᵀ M_k w_k, [D] from w [D, K, G]."""
    by_arm = np.swapaxes(w, 0, 1)
    return np.sum((by_arm @ matrices) * by_arm, axis=(0, 2))


def _named(kernels, data: PlayStatistics, noise: float) -> dict[str, Kernel]:
    """Kernels by name, the flat one among them."""
    if not isinstance(kernels, Mapping):
        kernels = [as_kernel(kernel) for kernel in kernels]
        names = [describe(kernel) for kernel in kernels]
        if len(set(names)) < len(names):
            raise ValueError(f"kernels must be a dict from name to kernel where two are alike, got {names}")
        kernels = dict(zip(names, kernels, strict=True))
    kernels = {name: as_kernel(kernel) for name, kernel in kernels.items()}
    if any(isinstance(kernel, Constant) for kernel in kernels.values()):
        return kernels
    plays = np.maximum(np.sum(data.counts, axis=1), 1)
    levels = np.mean((np.sum(data.sums, axis=1) / plays) ** 2)
    return kernels | {"flat": Constant(float(max(levels, np.square(noise))))}


def describe(kernel: Kernel) -> str:
    """A kernel's structure, without its numbers.

    >>> describe((SquaredExponential(2.0) + 1.0) * Constant(3.0))
    '(SquaredExponential + Constant) * Constant'
    """
    if isinstance(kernel, Sum):
        return f"{describe(kernel.left)} + {describe(kernel.right)}"
    if isinstance(kernel, Product):
        sides = (kernel.left, kernel.right)
        return " * ".join(f"({describe(side)})" if isinstance(side, Sum) else describe(side) for side in sides)
    fixed = jax.tree.structure(kernel).node_data()[1]  # fields that are not hyperparameters, such as Matérn's ν
    return type(kernel).__name__ + (f"({', '.join(map(str, fixed))})" if fixed else "")


def _ranked(fits: dict[str, Fit], num_plays: int, learn_noise: bool) -> list[KernelScore]:
    sizes = {name: _num_learned(fit, learn_noise) for name, fit in fits.items()}
    penalised = {name: fit.evidence - 0.5 * sizes[name] * np.log(num_plays) for name, fit in fits.items()}
    best = max(penalised.values())
    total = sum(np.exp(value - best) for value in penalised.values())
    rows = [
        KernelScore(
            name, fit, fit.evidence, sizes[name], float(penalised[name]), float(np.exp(penalised[name] - best) / total)
        )
        for name, fit in fits.items()
    ]
    return sorted(rows, key=lambda row: -row.penalised)


def _num_learned(fit: Fit, learn_noise: bool) -> int:
    return len(jax.tree.leaves(fit.kernel)) + (np.size(fit.noise) if learn_noise else 0)
