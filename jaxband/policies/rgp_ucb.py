"""dRGP-UCB: play the d arms whose total has the largest upper confidence bound η + α_t ς (Algorithm 1)."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax import Array

from jaxband import checks, posterior
from jaxband.base import Plan, Planner, record
from jaxband.kernels import Kernel
from jaxband.planners import exhaustive
from jaxband.planners.exhaustive import best_arm
from jaxband.policies import confidence
from jaxband.policies.gaussian import GaussianPolicy, as_count, as_number, check_arguments
from jaxband.policies.learning import Learning, learning
from jaxband.posterior import Posterior


def rgp_ucb(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    noise: float,
    *,
    planner: Planner | None = None,
    commit: int | None = None,
    learn: int | None = None,
    alpha: Callable = confidence.as_written,
    alpha_scale: float = 1.0,
    noisy_variance: bool = False,
    warm_up: int = 0,
) -> "RgpUcb | Learning":
    """Upper confidence bounds with lookahead; `planner` sets depth d and whether arms may repeat (default: d = 1).

    `commit` plays are made before planning again (None: the whole plan). With `learn` = n the kernel is only where the
    policy starts: its lengthscale and variance are fitted to the rewards after every n plans, and sooner at first
    (`policies.learning`).
    The last four arguments tell the protocols apart: the schedule `alpha` and a factor on it, whether the noise of the
    d rewards is added to ς² (`noisy_variance`), and how many rounds first play arms 0, 1, 2, … in turn. The defaults
    are the paper as written; `experiments.protocols` has both.

    >>> from jaxband.kernels import SquaredExponential
    >>> rgp_ucb(SquaredExponential(5.0), num_arms=10, z_max=30, noise=0.1, planner=exhaustive(3)).commit
    3
    """
    planner = exhaustive(1) if planner is None else planner
    prior = posterior.prior(kernel, num_arms, z_max)
    commit = check_arguments(num_arms, noise, planner, commit, warm_up)
    if not hasattr(planner, "plan_ucb_points"):
        what = f"planner must plan for upper confidence bounds, got {planner}"
        raise ValueError(f"{what}, which plans for known or sampled curves; use planners.subset here, or rgp_ts")
    checks.scalar("alpha_scale", alpha_scale)
    checks.non_negative("alpha_scale", alpha_scale)
    policy = RgpUcb(
        prior,
        as_number(noise),
        alpha(*prior.counts.shape, planner.depth),
        as_number(alpha_scale),
        as_number(noisy_variance),
        as_count(warm_up),
        planner,
        commit,
    )
    return learning(policy, kernel, z_max, learn)


@record("planner", "commit")
class RgpUcb(GaussianPolicy):
    prior: Posterior
    noise: Array
    alpha: Callable[[Array], Array]
    alpha_scale: Array
    noisy_variance: Array  # 0 or 1
    warm_up: Array
    planner: Planner
    commit: int

    def propose(self, key: Array, state: Posterior, z: Array, t: Array) -> Plan:
        alpha = self.alpha_scale * self.alpha(t)
        extra = self.noisy_variance * self.depth * self.noise**2
        if self.depth == 1:  # the variance of one play is at hand
            mean, variance = posterior.moments_at(state, z)
            return best_arm(mean + alpha * jnp.sqrt(variance + extra))
        return self.planner.plan_ucb_points(*self.reach(state, z), alpha, extra_variance=extra)
