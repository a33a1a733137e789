"""dRGP-UCB: play the d arms whose total has the largest upper confidence bound η + α_t ς (Algorithm 1)."""

import functools
from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax import Array

from jaxband import checks, posterior
from jaxband.base import Plan, Planner, Policy, Round
from jaxband.kernels import Kernel
from jaxband.planners import exhaustive, slot_sets
from jaxband.planners.greedy import best_arm
from jaxband.policies import confidence, costs
from jaxband.policies.arguments import as_number, check_noise, check_planner, check_replan_every
from jaxband.policies.kernel_learning import with_kernel_learning
from jaxband.policies.planning import PosteriorPolicy, PosteriorState
from jaxband.policies.warm_up import with_warm_up
from jaxband.posterior import Posterior
from jaxband.pytree import pytree_dataclass
from jaxband.registry import register


@register(
    "policy",
    label="RGP-UCB",
    cost=functools.partial(costs.posterior_policy, for_bounds=True),
    defaults={"kernel": "squared_exponential", "planner": "exhaustive", "depth": 1, "alpha": "as_written"},
    example={"kernel": "squared_exponential", "lengthscale": 2.0},
    told=("kernel", "noise"),
    words={
        "alpha": ("α", ""),
        "alpha_scale": ("α scale", ""),
        "replan_every": ("replans every", "plays"),
        "refit_every": ("refits every", "plans"),
        "warm_up": ("warm-up", "rounds"),
    },
)
def rgp_ucb(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    noise: float,
    *,
    planner: Planner | None = None,
    replan_every: int | None = None,
    refit_every: int | None = None,
    alpha: confidence.ScheduleFactory = confidence.as_written,
    alpha_scale: float = 1.0,
    predictive_variance: bool = False,
    warm_up: int = 0,
    rank: int | None = None,
) -> Policy:
    """Upper confidence bounds with lookahead; `planner` sets depth d and whether arms may repeat (default: d = 1).

    `replan_every` plays are made before planning again (None: the whole plan). With `refit_every` = n the kernel is
    only where the policy starts: its lengthscale and variance are fitted to the rewards after every n plans, and
    sooner at first (`policies.kernel_learning`).
    Four arguments tell the protocols apart: the schedule `alpha` and a scale for it, whether the noise of the
    d rewards is added to ς² (`predictive_variance`), and how many rounds first play arms 0, 1, 2, … in turn. The
    defaults are the paper as written; `experiments.protocols` has both. `rank` fixes the shape of the posterior, so
    that hyperparameters may be traced (`posterior.prior`).

    >>> from jaxband.kernels import SquaredExponential
    >>> rgp_ucb(SquaredExponential(5.0), num_arms=10, z_max=30, noise=0.1, planner=exhaustive(3)).replan_every
    3
    """
    planner = exhaustive(1) if planner is None else planner
    prior = posterior.prior(kernel, num_arms, z_max, rank=rank)
    noise, planner = check_noise(noise), check_planner(planner, num_arms)
    if not planner.plans_upper_bounds:
        what = f"planner must plan for upper confidence bounds, got {planner}"
        raise ValueError(f"{what}, which plans for known or sampled curves; use planners.subset here, or rgp_ts")
    checks.scalar("alpha_scale", alpha_scale)
    checks.non_negative("alpha_scale", alpha_scale)
    policy = RgpUcb(
        prior,
        noise,
        alpha(*prior.counts.shape, planner.depth),
        as_number(alpha_scale),
        as_number(predictive_variance),
        planner,
        check_replan_every(replan_every, planner.depth),
    )
    return with_warm_up(with_kernel_learning(policy, kernel, z_max, refit_every), warm_up)


@pytree_dataclass(static=("planner", "replan_every", "first_round"))
class RgpUcb(PosteriorPolicy):
    prior: Posterior
    noise: Array
    alpha: Callable[[Array], Array]
    alpha_scale: Array
    predictive_variance: Array  # 0 or 1
    planner: Planner
    replan_every: int
    first_round: int = 0

    @property
    def plan_type(self) -> type[Plan]:
        return Plan if self.depth == 1 else self.planner.ucb_plan_type

    def plan(self, key, state: PosteriorState, round: Round) -> Plan:
        alpha = self.alpha_scale * self.alpha(round.t)
        extra = self.predictive_variance * self.depth * self.noise**2
        if self.depth == 1:  # the variance of one play is at hand
            mean, variance = posterior.moments_at(state.posterior, round.z)
            return best_arm(mean + alpha * jnp.sqrt(variance + extra), round.available)
        mean, root = self.window(state.posterior, round.z)
        mean, root = slot_sets.mask(mean, round.available), slot_sets.pad_for_idle(root, round.available)
        plan = self.planner.plan_ucb_window(mean, root, alpha, extra_variance=extra)
        return slot_sets.unmask(plan, self.num_arms, round.available)
