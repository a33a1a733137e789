"""Whittle's index: the price per play up to which it is right to play an arm now, if only that arm counted.

At price λ arm j earns g_j(λ) per round at best (`optimum`). At rest z it is better played now than at a later rest y if
f_j(z) ≥ f_j(y) − (y − z) g_j(λ): for all prices with g_j(λ) ≥ s_j(z) = max(0, max_{y>z} (f_j(y) − f_j(z)) / (y − z)).
And g_j(λ) ≥ s for λ ≤ f_j(p − 1) − p s with the best period p. So the index has a closed form, for any curve:

    W_j(z) = max_{1≤p≤G} f_j(p − 1) − p s_j(z).
"""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband.base import Plan, Planner
from jaxband.planners.greedy import best_arm
from jaxband.registry import Cost, register


def _cost(values, for_bounds: bool) -> Cost:
    return Cost(0.001 * values["num_arms"] * (values["z_max"] + 1) ** 2, 4.0)


@register("planner", cost=_cost, label="Whittle")
def whittle() -> "Whittle":
    """A planner of one play: the arm of largest index.

    >>> whittle().plan(curves=[[0.0, 0.9, 1.0], [0.6, 0.7, 0.7]], z=[2, 2]).arms.tolist()
    [0]
    """
    return Whittle()


@dataclasses.dataclass(frozen=True)
class Whittle(Planner):
    depth: ClassVar[int] = 1

    def plan(
        self,
        curves: Array,
        z: Array,
        *,
        terminal_values: Array | None = None,
        available: Array | None = None,
        plays: int | None = None,
        idle: bool = False,
    ) -> Plan:
        """The arm of largest index; its value is that index, which proves nothing. See `base.Planner`."""
        here = jnp.take_along_axis(indices(curves), z[:, None], axis=1)[:, 0]
        plan = best_arm(here, available, idle)._replace(certified=jnp.asarray(False))
        return self.shaped(plan, plays)


def indices(curves: Array) -> Array:
    """W_j(z), [K, G]."""
    num_points = curves.shape[1]
    rests = np.arange(num_points)
    ahead = rests[None, :] - rests[:, None]  # [z, y]
    slopes = (curves[:, None, :] - curves[:, :, None]) / jnp.asarray(np.maximum(ahead, 1), curves.dtype)[None]
    steepest = jnp.max(jnp.where((ahead > 0)[None], slopes, 0.0), axis=2)  # [K, z]
    periods = jnp.asarray(rests + 1, curves.dtype)
    return jnp.max(curves[:, None, :] - periods[None, None, :] * steepest[:, :, None], axis=2)
