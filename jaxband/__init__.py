"""jaxband: recovering bandits in JAX. Every arm's expected reward is an unknown function of how long it has rested.

Read the code in this order: base, kernels, posterior, fit, recovery, environment, planners, optimum, policies,
simulate, regret, monte_carlo.
"""

from jaxband import compile_cache, devices

devices.one_per_core()
compile_cache.enable()

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
    theory,
)
from jaxband.environment import Problem  # noqa: E402
from jaxband.monte_carlo import Result, monte_carlo  # noqa: E402
from jaxband.simulate import Run, simulate  # noqa: E402

__all__ = [
    "Problem",
    "Result",
    "Run",
    "base",
    "fit",
    "kernels",
    "monte_carlo",
    "optimum",
    "planners",
    "policies",
    "posterior",
    "recovery",
    "regret",
    "simulate",
    "sweep",
    "theory",
]
__version__ = "0.1.0"
