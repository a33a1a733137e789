"""Bounds on Bayesian regret: Theorems 1–4, the corollary (d = 1) and the theorem on UCB-Z, as numbers for a problem.

They hold in expectation over curves drawn from the kernel, for policies as the paper writes them: exact plans, played
to the end (`replan_every` = d), and for UCB the width `confidence.as_written`. The regret is the d-step lookahead
regret, against sequences that may repeat an arm (multiple play) or not (single play); T is rounded up to H = ⌈T/d⌉
blocks.

Each block costs at most α_h ς_h, plus what lies above the confidence bound. `constants` says how this is added up:

"corrected"   ((Σ_h α_h²) · C · K γ̄_{Hd/K})^½  +  K^d e^{−L} ς_max π^{3/2} / (6 √2 d²),    α_h² = 2 L + 4 log(h d)
              single play:    C = C_1,  ς_max = √(d v)
              multiple play:  C = C_d,  ς_max = d √v
              UCB: L = d log(K G);  TS, whose α is free to choose: L = d log K
"printed"     (4 log((K G)^d (T + d)) · (⌊T/d⌋ + 1) · C · K γ_T)^½  +  π^{5/2} / (3 √2 d)
              single play: C = 1 / log(1 + σ⁻²);  multiple play: 3 d σ⁻² times that

C_s is `variance_per_information`, γ̄ is `information_gain_bound`, v = max k(z, z). The first term is Σ_h α_h ς_h by
Cauchy and Schwarz: Σ_h α_h² = 2 H L + 4 log(d^H H!), and Σ_h ς_h² ≤ C Σ_j γ_{N_j} ≤ C K γ̄_{Hd/K}. The second is what
exceeds the confidence bounds: Σ_i E(M_i − η_i − α ς_i)⁺ ≤ K^d ς_max e^{−α²/2} / √(2π) in a block, and Σ h⁻² = π²/6.
The printed constants are not proved (docs/theory.md): they are here to be compared.
"""

import math

import numpy as np

from jaxband import checks
from jaxband.kernels.base import Kernel, as_kernel
from jaxband.kernels.gram_matrices import gram_float64
from jaxband.theory.information import information_gain_bound
from jaxband.theory.lemmas import gaussian_maximum, variance_per_information

CONSTANTS = ("corrected", "printed")


def regret_bound_ucb(
    kernel: Kernel,
    num_arms: int,
    z_max: int,
    noise: float,
    horizon: int,
    depth: int = 1,
    *,
    repeats: bool = True,
    constants: str = "corrected",
) -> float:
    """dRGP-UCB: Theorem 1 (single play: `repeats` False), Theorem 3 (multiple play), the corollary (`depth` 1).

    >>> from jaxband.kernels import SquaredExponential
    >>> round(regret_bound_ucb(SquaredExponential(4.0), num_arms=10, z_max=30, noise=0.1, horizon=1000))
    2159
    """
    _check(kernel, num_arms, z_max, noise, horizon, depth, repeats, constants)
    every_rest = depth * math.log(num_arms * (z_max + 1))
    return _bound(kernel, num_arms, z_max, noise, horizon, depth, repeats, constants, every_rest)


def regret_bound_ts(
    kernel: Kernel,
    num_arms: int,
    z_max: int,
    noise: float,
    horizon: int,
    depth: int = 1,
    *,
    repeats: bool = True,
    constants: str = "corrected",
) -> float:
    """dRGP-TS: Theorem 2 (single play: `repeats` False), Theorem 4 (multiple play), the corollary (`depth` 1).

    Given the past, the drawn plan and the best one have the same law, so that any confidence bound known by then will
    do in the proof. The paper takes that of dRGP-UCB; the rests are known too, which leaves K^d plans to be sure of.

    >>> from jaxband.kernels import SquaredExponential
    >>> round(regret_bound_ts(SquaredExponential(4.0), num_arms=10, z_max=30, noise=0.1, horizon=1000))
    1937
    """
    _check(kernel, num_arms, z_max, noise, horizon, depth, repeats, constants)
    this_rest = depth * math.log(num_arms)
    return _bound(kernel, num_arms, z_max, noise, horizon, depth, repeats, constants, this_rest)


def regret_bound_ucb_z(
    kernel: Kernel, num_arms: int, z_max: int, noise: float, horizon: int, *, constants: str = "corrected"
) -> float:
    """UCB-Z, the theorem of the appendix; instantaneous regret, t_0 the rounds by which every pair has been visited.

    "corrected"   D (t_0 + 2 K G / (e T)) + 4 σ √((2 + 6 log T) K G T),    t_0 = K (1 + G (G+1) / 2),   at most D T
    "printed"     2 t_0 √(2 log t_0) + 2 K G √(2 log T) + 2 σ √((2 + 6 log T) K G T),    t_0 = K G (G+1)

    D = 2 √(2 v log(K G)) ≥ E(max f − min f). Some bound of the T K G fails with probability at most 2 K G / (e T²),
    by noise alone, which is independent of the curves. Otherwise a visit costs at most 2 σ √((2 + 6 log T) / n), n
    counting those before, and Σ_{n≤N} n^{−½} ≤ 2 √N, where the paper has √N.

    >>> from jaxband.kernels import SquaredExponential
    >>> round(regret_bound_ucb_z(SquaredExponential(4.0), num_arms=10, z_max=30, noise=0.1, horizon=100_000))
    52445
    """
    _check(kernel, num_arms, z_max, noise, horizon, constants=constants)
    pairs, points = num_arms * (z_max + 1), z_max + 1
    visits = noise * math.sqrt((2.0 + 6.0 * math.log(horizon)) * pairs * horizon)
    if constants == "printed":
        _variance_at_most_one(kernel, z_max)
        start = pairs * (points + 1)
        return start * 2.0 * gaussian_maximum(start) + pairs * 2.0 * gaussian_maximum(horizon) + 2.0 * visits
    start = num_arms * (1.0 + points * (points + 1) / 2.0)
    per_round = trivial_regret_bound(kernel, num_arms, z_max, 1)
    bound = per_round * (start + 2.0 * pairs / (math.e * horizon)) + 4.0 * visits
    return min(bound, per_round * horizon)


def trivial_regret_bound(kernel: Kernel, num_arms: int, z_max: int, horizon: int) -> float:
    """What no policy can exceed: T D, with D = 2 √(2 v log(K G)) ≥ E(max f − min f). A bound above it says nothing.

    >>> from jaxband.kernels import SquaredExponential
    >>> round(trivial_regret_bound(SquaredExponential(4.0), num_arms=10, z_max=30, horizon=1000))
    6774
    """
    _check(kernel, num_arms, z_max, 1.0, horizon)
    return 2.0 * horizon * gaussian_maximum(num_arms * (z_max + 1), math.sqrt(_prior_variance(kernel, z_max)))


def _bound(kernel, num_arms, z_max, noise, horizon, depth, repeats, constants, log_count) -> float:
    if constants == "printed":
        return _printed(kernel, num_arms, z_max, noise, horizon, depth, repeats)
    return _corrected(kernel, num_arms, z_max, noise, horizon, depth, repeats, log_count)


def _corrected(kernel, num_arms, z_max, noise, horizon, depth, repeats, log_count) -> float:
    blocks = math.ceil(horizon / depth)
    variance = _prior_variance(kernel, z_max)
    squared_widths = 2.0 * blocks * (log_count + 2.0 * math.log(depth)) + 4.0 * math.lgamma(blocks + 1)
    per_information = variance_per_information(variance, noise, depth if repeats else 1)
    information = num_arms * information_gain_bound(kernel, z_max, noise, blocks * depth / num_arms)
    deviation = math.sqrt(variance) * (depth if repeats else math.sqrt(depth))
    share = math.exp(depth * math.log(num_arms) - log_count)
    above = share * deviation * math.pi**1.5 / (6.0 * math.sqrt(2.0) * depth**2)
    return math.sqrt(squared_widths * per_information * information) + above


def _printed(kernel, num_arms, z_max, noise, horizon, depth, repeats) -> float:
    _variance_at_most_one(kernel, z_max)
    log_plans = depth * math.log(num_arms * (z_max + 1)) + math.log(horizon + depth)
    per_information = (3.0 * depth / noise**2 if repeats and depth > 1 else 1.0) / math.log1p(noise**-2)
    information = num_arms * information_gain_bound(kernel, z_max, noise, horizon)
    squared = 4.0 * log_plans * (horizon // depth + 1) * per_information * information
    return math.sqrt(squared) + math.pi**2.5 / (3.0 * math.sqrt(2.0) * depth)


def _prior_variance(kernel: Kernel, z_max: int) -> float:
    """v, the largest prior variance on the grid."""
    return float(np.diagonal(gram_float64(as_kernel(kernel), np.arange(z_max + 1))).max())


def _variance_at_most_one(kernel: Kernel, z_max: int) -> None:
    variance = _prior_variance(kernel, z_max)
    if variance > 1.0:
        raise ValueError(f"the printed constants are for a prior variance of at most 1, got {variance:g}")


def _check(kernel, num_arms, z_max, noise, horizon, depth=1, repeats=True, constants="corrected") -> None:
    checks.one_of("constants", constants, CONSTANTS)
    as_kernel(kernel)
    checks.integer("num_arms", num_arms, minimum=1)
    checks.integer("z_max", z_max, minimum=0)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    checks.integer("horizon", horizon, minimum=1)
    most = None if repeats else num_arms
    checks.integer("depth", depth, 1, most, remedy="" if repeats else "single play needs an arm per slot")
