"""Checks and conversions of what policies are built with."""

import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.base import Planner


def check_planner(planner: Planner, num_arms: int) -> Planner:
    """A planner that can plan for so many arms."""
    if not isinstance(planner, Planner):
        raise TypeError(f"planner must be a planner such as planners.subset(3), got {planner!r}")
    planner.check(num_arms)
    return planner


def check_replan_every(replan_every: int | None, depth: int) -> int:
    """`replan_every`, or the whole plan if it is None."""
    if replan_every is None:
        return depth
    return checks.integer("replan_every", replan_every, 1, depth, remedy="a plan is as long as its planner's depth")


def check_terminal_values(planner: Planner, wanted: bool) -> bool:
    """Whether terminal values are wanted, of a planner that takes them."""
    if wanted and not planner.takes_terminal_values:
        what = f"planner must take terminal values, got {planner}"
        raise ValueError(f"{what}; use planners.subset, or terminal_values=False")
    return bool(wanted)


def check_noise(noise) -> Array:
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    return as_number(noise)


def as_number(value) -> Array:
    return jnp.asarray(value, dtype=float)
