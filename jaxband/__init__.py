"""jaxband: recovering bandits in JAX. Every arm's expected reward is an unknown function of how long it has rested.

Read the code in this order: base, kernels, posterior, fit, recovery, problem, planners, optimum, policies, regret,
simulation. Importing it asks JAX for one CPU device per core and for a compilation cache; JAXBAND_SETUP=off in the
environment leaves JAX as it is (`_runtime.startup`). What a first result does not need is imported when it is used.
"""

import importlib
from typing import TYPE_CHECKING

from jaxband._runtime import startup

startup.configure()

from jaxband import (  # noqa: E402
    base,
    fit,
    kernels,
    optimum,
    planners,
    policies,
    posterior,
    recovery,
    regret,
)
from jaxband.base import IDLE, INVALID, Plan, Planner, Policy, PolicyError, Round  # noqa: E402
from jaxband.problem import Problem, next_z  # noqa: E402
from jaxband.pytree import pytree_dataclass  # noqa: E402
from jaxband.registry import register  # noqa: E402
from jaxband.simulation.monte_carlo import monte_carlo  # noqa: E402
from jaxband.simulation.result import PairedDifference, Result, compare  # noqa: E402
from jaxband.simulation.rollout import Run, simulate  # noqa: E402

if TYPE_CHECKING:
    from jaxband import sweep, testing, theory

__all__ = [
    "IDLE",
    "INVALID",
    "PairedDifference",
    "Plan",
    "Planner",
    "Policy",
    "PolicyError",
    "Problem",
    "Result",
    "Round",
    "Run",
    "base",
    "compare",
    "fit",
    "kernels",
    "monte_carlo",
    "next_z",
    "optimum",
    "planners",
    "policies",
    "posterior",
    "pytree_dataclass",
    "recovery",
    "register",
    "regret",
    "simulate",
    "sweep",
    "testing",
    "theory",
]
__version__ = "0.1.0"
_WHEN_USED = ("sweep", "testing", "theory")


def __getattr__(name: str):
    if name in _WHEN_USED:
        return importlib.import_module(f"jaxband.{name}")
    raise AttributeError(f"module 'jaxband' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
