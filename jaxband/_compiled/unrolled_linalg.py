"""Symmetric matrices of a few rows as lists of scalars: under `vmap` every entry is a vector over the batch.

XLA runs through [3, 3] arrays entry by entry, but through vectors at full speed. A matrix is its lower triangle, one
list per row, so that the last entry of a row is on the diagonal.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array

from jaxband._compiled.batching import fast_sum


def products(slopes: list[Array], weights: Array) -> list[list[Array]]:
    """The lower triangle of Σ_z weight · slope slopeᵀ from slopes [G, ...]."""
    return [[fast_sum(weights * a * b) for b in slopes[: i + 1]] for i, a in enumerate(slopes)]


def mean(matrix: list[list[Array]]) -> Array:
    """Of the diagonal."""
    return sum(row[-1] for row in matrix) / len(matrix)


def with_ridge(matrix: list[list[Array]], ridge: Array) -> list[list[Array]]:
    return [[*row[:-1], row[-1] + ridge] for row in matrix]


def dot(left: list[Array], right: list[Array]) -> Array:
    return sum(a * b for a, b in zip(left, right, strict=True))


def times(matrix: list[list[Array]], vector: list[Array]) -> list[Array]:
    size = len(matrix)
    return [sum(matrix[max(i, j)][min(i, j)] * vector[j] for j in range(size)) for i in range(size)]


def factor(matrix: list[list[Array]]) -> list[list[Array]]:
    """Cholesky's lower triangle, with the reciprocals of its diagonal on the diagonal."""
    factor = []
    for i, row in enumerate(matrix):
        new = []
        for j in range(i):
            new.append((row[j] - dot(new[:j], factor[j][:j])) * factor[j][j])
        new.append(jax.lax.rsqrt(jnp.maximum(row[i] - dot(new, new), 1e-12 * row[i] + 1e-30)))
        factor.append(new)
    return factor


def solve(factor: list[list[Array]], right: list[Array]) -> list[Array]:
    """matrix⁻¹ right from its factor."""
    size = len(factor)
    half = half_solve(factor, right)
    solution = [None] * size
    for i in reversed(range(size)):
        below = sum(factor[j][i] * solution[j] for j in range(i + 1, size))
        solution[i] = (half[i] - below) * factor[i][i]
    return solution


def half_solve(factor: list[list[Array]], right: list[Array]) -> list[Array]:
    """L⁻¹ right, whose square is rightᵀ matrix⁻¹ right."""
    half = []
    for i, row in enumerate(factor):
        half.append((right[i] - dot(row[:i], half)) * row[i])
    return half


def held(matrix: list[list[Array]], free: list[Array]) -> list[list[Array]]:
    """`matrix` with the rows and columns of parameters that are not free replaced by the identity's."""
    return [
        [entry * free[i] * free[j] + (1.0 - free[i] if i == j else 0.0) for j, entry in enumerate(row)]
        for i, row in enumerate(matrix)
    ]


def is_positive_definite(matrix: list[list[Array]]) -> Array:
    """Are all pivots of elimination above rounding?"""
    factor, definite = [], jnp.asarray(True)
    for i, row in enumerate(matrix):
        new = []
        for j in range(i):
            new.append((row[j] - dot(new[:j], factor[j][:j])) * factor[j][j])
        pivot = row[i] - dot(new, new)
        definite &= pivot > 1e-5 * jnp.abs(row[i])
        factor.append([*new, jax.lax.rsqrt(jnp.maximum(pivot, 1e-30))])
    return definite


def flat(matrix: list[list[Array]]) -> Array:
    """The lower triangle row by row, [n(n+1)/2, ...]."""
    return jnp.stack([entry for row in matrix for entry in row])


def from_flat(entries: Array) -> list[list[Array]]:
    size = math.isqrt(2 * entries.shape[0])
    return [[entries[i * (i + 1) // 2 + j] for j in range(i + 1)] for i in range(size)]
