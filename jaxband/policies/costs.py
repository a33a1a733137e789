"""Rough costs of policies, for the estimates of sweeps: microseconds per round on one core, and seconds to compile.

The numbers were measured on one core of an AMD EPYC at 2.4 GHz (benchmarks/sweep_costs.py compares); a factor of two
either way is to be expected. `values` are the settings of a cell.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxband import registry
from jaxband.policies.kernel_learning import early_fits
from jaxband.registry import Cost

CACHE = 2**23  # bytes; larger states are read from memory
LANES = 64  # replications side by side
TERMINAL_VALUES = 0.075  # per arm and rest, for every plan
REFIT = 0.048  # per arm and third power of the grid, for every fit


UNKNOWN = Cost(1.0, 4.0)  # of a policy that says nothing


def posterior_policy(values: Mapping[str, Any], for_bounds: bool = False) -> Cost:
    """A policy that plans from a posterior."""
    num_arms, num_points = values["num_arms"], values["z_max"] + 1
    root = 0.65 * num_points**2  # the rank is about two thirds of the grid
    update = 0.1 + 0.015 * num_arms + 0.0007 * root * (3 if 4 * LANES * num_arms * root > CACHE else 1)
    planned = planning(values, for_bounds)
    refits = fits(values)
    compile_seconds = 28.0 if refits else planned.compile
    return Cost(update + planned.round + REFIT * num_arms * num_points**3 * refits / values["horizon"], compile_seconds)


def planning(values: Mapping[str, Any], for_bounds: bool = False) -> Cost:
    """A share of a plan in every round."""
    num_arms, depth = values["num_arms"], values.get("depth", 1)
    plan = registry.entry("planner", values["planner"]).cost(values, for_bounds) if depth > 1 else Cost(0.0, 4.0)
    terminal = TERMINAL_VALUES * num_arms * (values["z_max"] + 1) if values.get("terminal_values") else 0.0
    replan_every = values.get("replan_every") or depth
    return Cost((plan.round + terminal) / replan_every, max(plan.compile, 9.0 if terminal else 0.0))


def fits(values: Mapping[str, Any]) -> int:
    """How often a policy fits its kernel."""
    every = values.get("refit_every")
    if not every:
        return 0
    blocks = values["horizon"] // (values.get("replan_every") or values.get("depth", 1))
    return blocks // every + int(np.sum(early_fits(every) <= blocks))
