"""jaxband: recovering bandits in JAX. Every arm's expected reward is an unknown function of how long it has rested.

Read the code in this order: base, kernels, posterior, recovery, environment, planners, policies, simulate, regret,
monte_carlo.
"""

from jaxband import compile_cache, devices

devices.one_per_core()
compile_cache.enable()

from jaxband import base, kernels, planners, policies, posterior, recovery, regret, sweep, theory  # noqa: E402
from jaxband.environment import Problem  # noqa: E402
from jaxband.monte_carlo import Result, monte_carlo  # noqa: E402
from jaxband.simulate import Run, simulate  # noqa: E402

__all__ = [
    "Problem",
    "Result",
    "Run",
    "base",
    "kernels",
    "monte_carlo",
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
