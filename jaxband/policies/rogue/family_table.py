"""What a parametric family looks like all over its box: curves and their slopes at a table of points.

A point is x = (θ − low)/(high − low), every parameter between 0 and 1. One parameter of most families is a height,
f = height · shape; the table then holds shapes, at height 1.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband.policies.rogue.family_curves import values_at, with_slopes
from jaxband.recovery import ParametricFamily


class Table(NamedTuple):
    """Points x = (θ − low)/(high − low) all over the box, with their curves; if there is a height, at height 1."""

    points: Array  # [M, p]
    values: Array  # [G, M]
    slopes: Array  # [p, G, M]; derivatives in x
    products: Array  # [G, p·M]; value² and value · each slope but the height's; of use if there is a height
    factors: Array  # [G, p·M]; value and each slope but the height's


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def tabulate(family: ParametricFamily, grid_points: int, table_points: int) -> Table:
    """The corners of the box included; at height 1 if there is a height."""
    coarse = [i for i in range(len(family.bounds)) if i != family.amplitude_index]
    ticks = np.linspace(0.0, 1.0, round(table_points ** (1.0 / max(len(coarse), 1))))
    points = np.stack(np.meshgrid(*[ticks] * len(coarse), indexing="ij"), axis=-1).reshape(-1, len(coarse))
    if family.amplitude_index is not None:
        low, high = family.bounds[family.amplitude_index]
        points = np.insert(points, family.amplitude_index, (1.0 - low) / (high - low), axis=1)
    points = jnp.asarray(points, dtype=float)
    values, slopes = with_slopes(lambda x: values_at(family, grid_points, x), points.T)
    factors = [values, *(slopes[i] for i in coarse)]
    products = [values * factor for factor in factors]
    return Table(points, values, jnp.stack(slopes), jnp.concatenate(products, axis=1), jnp.concatenate(factors, axis=1))
