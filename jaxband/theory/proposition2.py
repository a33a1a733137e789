"""Proposition 2: how far an optimistic plan can be from the best one when its budget runs out.

With v* the value of the best plan, p_l(ε) the share of nodes at depth l that have a continuation worth v* − ε or more,
and Δ = max f − min(min f, 0): if p_l((d − l) Δ) ≤ λ^l for all l ≥ d_0, then after n > n_0 = (K^{d_0+1} − 1) / (K − 1)
expansions the best continuation of the returned node is worth at least v* minus

    (d − log(n − n_0) / log(λK) − log(λK − 1) / log(λK) + 1) Δ.

The proof counts expansions. A budget N counts nodes added to the tree, K per expansion, so that n = ⌊N / K⌋.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from jaxband import checks

MAX_LEAVES = 10**6


def optimistic_error(
    num_arms: int, depth: int, expansions: int, share: float, spread: float, first_depth: int
) -> float:
    """The bound of Proposition 2, with λ = `share`, Δ = `spread`, d_0 = `first_depth`; ∞ where it says nothing.

    >>> round(optimistic_error(num_arms=10, depth=4, expansions=75, share=0.4, spread=1.0, first_depth=1), 4)
    1.2075
    """
    num_arms = checks.integer("num_arms", num_arms, minimum=1)
    first_depth = checks.integer("first_depth", first_depth, 1, depth)
    spare = expansions - sum(num_arms**level for level in range(first_depth + 1))
    growth = share * num_arms
    if spare <= 0 or growth <= 1.0 or share > 1.0:
        return math.inf
    levels = (math.log(spare) + math.log(growth - 1.0)) / math.log(growth)
    return max((depth - levels + 1.0) * spread, 0.0)


def smallest_near_optimal_fraction(
    curves: ArrayLike, z: ArrayLike, depth: int, first_depth: int = 1
) -> tuple[float, float]:
    """The smallest λ that Proposition 2 allows on a small problem, and its Δ; every leaf of the tree is valued."""
    curves, z = np.asarray(curves, np.float64), np.asarray(z)
    checks.shape("curves", curves, (None, None), "[K, G]")
    checks.shape("z", z, curves.shape[:1], "[K]")
    checks.indices("z", z, curves.shape[1], "the grid")
    num_arms = len(curves)
    if num_arms**depth > MAX_LEAVES:
        raise ValueError(f"a tree of {num_arms}^{depth} leaves is too large to value all; the limit is {MAX_LEAVES:,}")
    spread = curves.max() - min(curves.min(), 0.0)
    values = _leaf_values(curves, z, depth)
    shares = []
    for level in range(first_depth, depth + 1):
        best_below = values.reshape(num_arms**level, -1).max(axis=1)
        near = np.mean(best_below >= values.max() - (depth - level) * spread)
        shares.append(near ** (1.0 / level))
    return max(shares), spread


def _leaf_values(curves: np.ndarray, z: np.ndarray, depth: int) -> np.ndarray:
    """The total of every sequence of `depth` arms, in lexicographic order."""
    rests, totals = z[None, :], np.zeros(1)
    arms = np.arange(len(curves))
    for _ in range(depth):
        totals = (totals[:, None] + curves[arms, rests]).ravel()
        rested = np.minimum(rests + 1, curves.shape[1] - 1)
        rests = np.where(np.eye(len(curves), dtype=bool)[None], 0, rested[:, None, :]).reshape(-1, len(curves))
    return totals
