"""Pointwise optimism: plan on the curves mean + β · sd, as if they were known, and count what is left afterwards.

Every point of every curve is taken to be as good as it may well be. Unlike the bound η + α ς of a whole plan this is
additive, so that the subset planner is exact at any depth. Replanned after every play, with terminal values at the best
price for the same optimistic curves (`optimum.terminal_values`), a few steps of lookahead are close to the full-horizon
optimum for such curves.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxband import checks, optimum, posterior
from jaxband._runtime.entry_points import compiled
from jaxband.base import Plan, Planner, Policy, Round
from jaxband.kernels import Kernel
from jaxband.planners import subset
from jaxband.policies import costs
from jaxband.policies.arguments import (
    as_number,
    check_noise,
    check_planner,
    check_replan_every,
    check_terminal_values,
)
from jaxband.policies.break_even import break_even_width
from jaxband.policies.kernel_learning import with_kernel_learning
from jaxband.policies.planning import PosteriorPolicy, PosteriorState
from jaxband.policies.warm_up import with_warm_up
from jaxband.posterior import Posterior
from jaxband.pytree import pytree_dataclass
from jaxband.registry import register

FEWEST_LEFT = 300  # rounds to come, if nobody knows how many
PRICE_STEPS, PRICE_REACH = 3, 0.001  # of the search for the price, from that of the plan before
LOOKS = 3  # prices that terminal values are averaged over


@register(
    "policy",
    label="RGP-pointwise",
    cost=costs.posterior_policy,
    defaults={"kernel": "squared_exponential", "planner": "subset", "depth": 3},
    example={"kernel": "squared_exponential", "lengthscale": 2.0},
    words={"beta": ("β", ""), "fade": ("fading", "")},
    told=("kernel", "noise"),
)
def rgp_pointwise(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    noise: float,
    *,
    planner: Planner | None = None,
    replan_every: int | None = 1,
    refit_every: int | None = None,
    beta: float | None = 2.3,
    horizon: int | None = None,
    fade: bool = False,
    terminal_values: bool = True,
    warm_up: int = 0,
    rank: int | None = None,
) -> Policy:
    """Optimism of `beta` standard deviations at every point; `planner` sets how far ahead (default: subset, d = 3).

    With `fade` optimism fades towards the `horizon` T, β (1 − t/T): what is learned late can be used but a few times.
    For `beta=None` it is as much as pays: that of `break_even_width` for the (T − t)/(1 + z) plays at rest z that are
    left. Without a horizon as many rounds are taken to be left as were played, and at least 300. The other options
    are those of `rgp_ucb`.

    >>> from jaxband.kernels import SquaredExponential
    >>> rgp_pointwise(SquaredExponential(5.0), num_arms=10, z_max=30, noise=0.1).depth
    3
    """
    planner = subset(3) if planner is None else planner
    prior = posterior.prior(kernel, num_arms, z_max, rank=rank)
    noise, planner = check_noise(noise), check_planner(planner, num_arms)
    if beta is not None:
        checks.scalar("beta", beta)
        checks.non_negative("beta", beta)
        beta = as_number(beta)
    if horizon is not None:
        horizon = as_number(checks.integer("horizon", horizon, minimum=1))
    elif fade:
        raise ValueError("horizon must be given for fade=True, got None; optimism fades towards it")
    policy = RgpPointwise(
        prior,
        noise,
        beta,
        horizon if fade or beta is None else None,
        planner,
        check_replan_every(replan_every, planner.depth),
        check_terminal_values(planner, terminal_values),
    )
    if policy.terminal_values:
        policy = dataclasses.replace(policy, first_price=_first_price(policy))
    return with_warm_up(with_kernel_learning(policy, kernel, z_max, refit_every), warm_up)


@compiled
def _first_price(policy: "RgpPointwise") -> Array:
    return optimum.dual_bound(policy.optimistic_curves(policy.prior, policy.first_round)).price


class PricedPlan(NamedTuple):
    """A plan, and the price that its terminal values belong to: there the search for the next price begins."""

    arms: Array
    value: Array
    certified: Array
    price: Array


@pytree_dataclass(static=("planner", "replan_every", "terminal_values", "first_round"))
class RgpPointwise(PosteriorPolicy):
    prior: Posterior
    noise: Array
    beta: Array | None  # None: as much optimism as pays
    horizon: Array | None  # None: unknown, or optimism does not fade
    planner: Planner
    replan_every: int
    terminal_values: bool
    first_price: Array | None = None  # of a play, before anything was seen
    first_round: int = 0

    @property
    def plan_type(self) -> type:
        return PricedPlan if self.terminal_values else self.planner.plan_type

    def init(self, key: Array) -> PosteriorState:
        state = super().init(key)
        return state._replace(plan=state.plan._replace(price=self.first_price)) if self.terminal_values else state

    def plan(self, key, state: PosteriorState, round: Round) -> Plan | PricedPlan:
        curves = self.optimistic_curves(state.posterior, round.t)
        if not self.terminal_values:
            return self.planner.plan(curves, round.z, available=round.available)
        price = optimum.dual_bound_from(curves, state.plan.price, steps=PRICE_STEPS, reach=PRICE_REACH).price
        after = optimum.terminal_values(curves, price, looks=LOOKS)
        plan = self.planner.plan(curves, round.z, terminal_values=after, available=round.available)
        return PricedPlan(plan.arms, plan.value, plan.certified, price)

    def describe(self, state: PosteriorState) -> dict[str, Array]:
        described = super().describe(state)
        described.pop("price", None)  # which there is before the first plan, too
        return described

    def optimistic_curves(self, belief: Posterior, t: Array) -> Array:
        """What the curves may be taken to be in round t, [K, G]."""
        return belief.mean + self.optimism(t)[None, :] * jnp.sqrt(belief.variance)

    def optimism(self, t: Array) -> Array:
        """Standard deviations above the mean at every rest in round t = 0, 1, …, [G]."""
        t, num_points = jnp.asarray(t, dtype=float), self.z_max + 1
        left = jnp.maximum(t, FEWEST_LEFT) if self.horizon is None else jnp.maximum(self.horizon - t, 0.0)
        if self.beta is None:
            return break_even_width(left / jnp.arange(1, num_points + 1, dtype=t.dtype))
        return jnp.full(num_points, self.beta if self.horizon is None else self.beta * left / self.horizon)
