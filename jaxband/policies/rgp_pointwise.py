"""Pointwise optimism: plan on the curves mean + β · sd, as if they were known, and count what is left afterwards.

Every point of every curve is taken to be as good as it may well be. Unlike the bound η + α ς of a whole plan this is
additive, so that the subset planner is exact at any depth. Replanned after every play, with end values at the best
price for the same optimistic curves (`optimum.end_values`), a few steps of lookahead are close to the full-horizon
optimum for such curves.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array

from jaxband import checks, optimum, posterior
from jaxband.base import Plan, Planner, record
from jaxband.kernels import Kernel
from jaxband.planners import subset
from jaxband.policies.gaussian import GaussianPolicy, as_count, as_number, check_arguments
from jaxband.policies.learning import Learning, learning
from jaxband.policies.optimism import worthwhile
from jaxband.policies.oracle import check_end_values
from jaxband.posterior import Posterior

FEWEST_LEFT = 300  # rounds to come, if nobody knows how many


def rgp_pointwise(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    noise: float,
    *,
    planner: Planner | None = None,
    commit: int | None = 1,
    learn: int | None = None,
    beta: float | None = 2.3,
    horizon: int | None = None,
    end_values: bool = True,
    warm_up: int = 0,
) -> "RgpPointwise | Learning":
    """Optimism of `beta` standard deviations at every point; `planner` sets how far ahead (default: subset, d = 3).

    If the `horizon` T is known, optimism fades, β (1 − t/T): what is learned late can be used but a few times. For
    `beta=None` it is as much as pays: that of `optimism.worthwhile` for the (T − t)/(1 + z) plays at rest z that are
    left. Without a horizon as many rounds are taken to be left as were played, and at least 300. The other options
    are those of `rgp_ucb`.

    >>> from jaxband.kernels import SquaredExponential
    >>> rgp_pointwise(SquaredExponential(5.0), num_arms=10, z_max=30, noise=0.1).depth
    3
    """
    planner = subset(3) if planner is None else planner
    prior = posterior.prior(kernel, num_arms, z_max)
    commit = check_arguments(num_arms, noise, planner, commit, warm_up)
    check_end_values(planner, end_values)
    if beta is not None:
        checks.scalar("beta", beta)
        checks.non_negative("beta", beta)
        beta = as_number(beta)
    if horizon is not None:
        horizon = as_number(checks.whole_number("horizon", horizon, minimum=1))
    policy = RgpPointwise(prior, as_number(noise), beta, horizon, as_count(warm_up), planner, commit, bool(end_values))
    return learning(policy, kernel, z_max, learn)


@record("planner", "commit", "end_values")
class RgpPointwise(GaussianPolicy):
    prior: Posterior
    noise: Array
    beta: Array | None  # None: as much optimism as pays
    horizon: Array | None
    warm_up: Array
    planner: Planner
    commit: int
    end_values: bool

    def propose(self, key: Array, state: Posterior, z: Array, t: Array) -> Plan:
        curves = state.mean + self.optimism(t)[None, :] * jnp.sqrt(state.variance)
        if not self.end_values:
            return self.planner.plan(curves, z)
        worth = optimum.end_values(curves, optimum.dual_bound(curves).price)
        return self.planner.plan(curves, z, end_values=worth)

    def optimism(self, t: Array) -> Array:
        """Standard deviations above the mean at every rest in round t = 0, 1, …, [G]."""
        t, num_points = jnp.asarray(t, dtype=float), self.z_max + 1
        left = jnp.maximum(t, FEWEST_LEFT) if self.horizon is None else jnp.maximum(self.horizon - t, 0.0)
        if self.beta is None:
            return worthwhile(left / jnp.arange(1, num_points + 1, dtype=t.dtype))
        return jnp.full(num_points, self.beta if self.horizon is None else self.beta * left / self.horizon)
