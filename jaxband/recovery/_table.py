"""Curves given as numbers, and arms whose recovery is complete at different rests.

A curve known up to its own z_max,j is held at its last value beyond it (the paper's "Practical considerations").
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks


def table(rows: Sequence[Sequence[float]]) -> Array:
    """Curves [K, G] from one row per arm; shorter rows hold their last value.

    >>> table([[0.0, 1.0], [0.0, 0.5, 0.7]]).round(1).tolist()
    [[0.0, 1.0, 1.0], [0.0, 0.5, 0.699999988079071]]
    """
    rows = [np.asarray(row, float) for row in rows]
    if not rows or any(row.ndim != 1 or row.size == 0 for row in rows):
        raise ValueError("rows must hold one non-empty list of values per arm, f(0), f(1), ...")
    for arm, row in enumerate(rows):
        checks.finite(f"rows[{arm}]", row)
    num_points = max(row.size for row in rows)
    return jnp.asarray(np.stack([np.pad(row, (0, num_points - row.size), mode="edge") for row in rows]), dtype=float)


def hold_after(curves: Array, z_max: Sequence[int]) -> Array:
    """`curves` [K, G] with arm j held at its value at z_max[j] from there on.

    >>> hold_after(jnp.asarray([[0.0, 1.0, 2.0]]), [1]).tolist()
    [[0.0, 1.0, 1.0]]
    """
    curves = jnp.asarray(curves, dtype=float)
    checks.shape("curves", curves, (None, None), "[K, G]")
    checks.shape("z_max", z_max, (curves.shape[0],), "[K]")
    checks.indices("z_max", z_max, curves.shape[1], "the grid")
    points = jnp.minimum(jnp.arange(curves.shape[1])[None, :], jnp.asarray(z_max)[:, None])
    return jnp.take_along_axis(curves, points, axis=1)
