"""jaxband: recovering bandits in JAX. Every arm's expected reward is an unknown function of how long it has rested.

Read the code in this order: base, kernels, posterior, fit, recovery, problem, planners, optimum, policies, regret,
simulation. Importing it asks JAX for one CPU device per core and for a compilation cache; JAXBAND_SETUP=off in the
environment leaves JAX as it is (`_runtime.startup`).
"""

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
    sweep,
    testing,
    theory,
)
from jaxband.base import IDLE, INVALID, Plan, Planner, Policy, PolicyError, Round  # noqa: E402
from jaxband.problem import Problem, next_z  # noqa: E402
from jaxband.pytree import pytree_dataclass  # noqa: E402
from jaxband.registry import register  # noqa: E402
from jaxband.simulation.monte_carlo import monte_carlo  # noqa: E402
from jaxband.simulation.result import PairedDifference, Result, compare  # noqa: E402
from jaxband.simulation.rollout import Run, simulate  # noqa: E402

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


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
