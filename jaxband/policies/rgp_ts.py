"""dRGP-TS: draw all curves from the posterior, play the d arms that are best for the draw (Algorithm 1)."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import posterior, prng
from jaxband.base import Plan, Planner, record
from jaxband.kernels import Kernel
from jaxband.planners import exhaustive
from jaxband.policies.gaussian import GaussianPolicy, as_count, as_number, check_arguments
from jaxband.policies.learning import Learning, learning
from jaxband.posterior import Posterior


def rgp_ts(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    noise: float,
    *,
    planner: Planner | None = None,
    commit: int | None = None,
    learn: int | None = None,
    noisy_variance: bool = False,
    warm_up: int = 0,
) -> "RgpTs | Learning":
    """Thompson sampling with lookahead; `planner` sets depth d and whether arms may repeat (default: d = 1).

    `noisy_variance` draws from the predictive distribution of a reward instead of the curve's, as the printed
    tables did for d = 1; there is no such thing for d > 1. The other options are those of `rgp_ucb`.

    >>> from jaxband.kernels import SquaredExponential
    >>> rgp_ts(SquaredExponential(5.0), num_arms=10, z_max=30, noise=0.1, planner=exhaustive(3), commit=1).commit
    1
    """
    planner = exhaustive(1) if planner is None else planner
    prior = posterior.prior(kernel, num_arms, z_max)
    commit = check_arguments(num_arms, noise, planner, commit, warm_up)
    if not hasattr(planner, "plan_points"):
        raise ValueError(f"planner must plan for sampled points, got {planner}; use planners.exhaustive or subset")
    if noisy_variance and planner.depth > 1:
        raise ValueError(
            f"noisy_variance must be False for depth > 1, got depth {planner.depth}; curves are drawn jointly there"
        )
    policy = RgpTs(prior, as_number(noise), as_number(noisy_variance), as_count(warm_up), planner, commit)
    return learning(policy, kernel, z_max, learn)


@record("planner", "commit")
class RgpTs(GaussianPolicy):
    prior: Posterior
    noise: Array
    noisy_variance: Array  # 0 or 1
    warm_up: Array
    planner: Planner
    commit: int

    @property
    def num_shocks(self) -> int:
        """How many standard normal numbers a draw takes."""
        return self.num_arms if self.depth == 1 else self.num_arms * self.prior.root.shape[-1]

    def propose(self, key: Array, state: Posterior, z: Array, t: Array) -> Plan:
        return self.propose_from(prng.normal(key, (self.num_shocks,)), state, z, t)

    def propose_from(self, shocks: Array, state: Posterior, z: Array, t: Array) -> Plan:
        return self.planner.plan_points(self.draw(shocks, state, z))

    def draw(self, shocks: Array, state: Posterior, z: Array) -> Array:
        """A joint draw of the curves at the points within reach, [K, 2d − 1], from shocks [num_shocks]."""
        if self.depth == 1:  # one point per arm: its own variance is all there is to know
            mean, variance = posterior.moments_at(state, z)
            return (mean + jnp.sqrt(variance + self.noisy_variance * self.noise**2) * shocks)[:, None]
        mean, root = self.reach(state, z)
        shocks = shocks.reshape(self.num_arms, -1)
        return mean + jnp.einsum("kpr,kr->kp", root, shocks, precision=jax.lax.Precision.HIGHEST)
