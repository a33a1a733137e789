"""dRGP-TS: draw all curves from the posterior, play the d arms that are best for the draw (Algorithm 1)."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import posterior
from jaxband._compiled import prng
from jaxband.base import Plan, Planner, Policy, Round
from jaxband.kernels import Kernel
from jaxband.planners import exhaustive, slot_sets
from jaxband.policies import costs
from jaxband.policies.arguments import as_number, check_noise, check_planner, check_replan_every
from jaxband.policies.kernel_learning import with_kernel_learning
from jaxband.policies.planning import PosteriorPolicy, PosteriorState
from jaxband.policies.warm_up import with_warm_up
from jaxband.posterior import Posterior
from jaxband.pytree import pytree_dataclass
from jaxband.registry import register

FEW_NORMALS = 128  # per plan; more are drawn as fast one plan at a time, and would take memory for all rounds


@register(
    "policy",
    label="RGP-TS",
    cost=costs.posterior_policy,
    defaults={"kernel": "squared_exponential", "planner": "exhaustive", "depth": 1},
    example={"kernel": "squared_exponential", "lengthscale": 2.0},
    told=("kernel", "noise"),
)
def rgp_ts(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    noise: float,
    *,
    planner: Planner | None = None,
    replan_every: int | None = None,
    refit_every: int | None = None,
    predictive_variance: bool = False,
    warm_up: int = 0,
    rank: int | None = None,
) -> Policy:
    """Thompson sampling with lookahead; `planner` sets depth d and whether arms may repeat (default: d = 1).

    `predictive_variance` draws from the predictive distribution of a reward instead of the curve's, as the printed
    tables did for d = 1; there is no such thing for d > 1. The other options are those of `rgp_ucb`.

    >>> from jaxband.kernels import SquaredExponential
    >>> rgp_ts(SquaredExponential(5.0), num_arms=10, z_max=30, noise=0.1, planner=exhaustive(3)).replan_every
    3
    """
    planner = exhaustive(1) if planner is None else planner
    prior = posterior.prior(kernel, num_arms, z_max, rank=rank)
    noise, planner = check_noise(noise), check_planner(planner, num_arms)
    if not planner.plans_windows:
        raise ValueError(f"planner must plan for sampled points, got {planner}; use planners.exhaustive or subset")
    if predictive_variance and planner.depth > 1:
        what = f"predictive_variance must be False for depth > 1, got depth {planner.depth}"
        raise ValueError(f"{what}; curves are drawn jointly there")
    replan_every = check_replan_every(replan_every, planner.depth)
    policy = RgpTs(prior, noise, as_number(predictive_variance), planner, replan_every)
    return with_warm_up(with_kernel_learning(policy, kernel, z_max, refit_every), warm_up)


@pytree_dataclass(static=("planner", "replan_every", "first_round"))
class RgpTs(PosteriorPolicy):
    prior: Posterior
    noise: Array
    predictive_variance: Array  # 0 or 1
    planner: Planner
    replan_every: int
    first_round: int = 0

    @property
    def draws_ahead(self) -> bool:
        """Are normal numbers drawn for many rounds at once? Not if it plans less often, or needs many."""
        most = self.num_arms * (1 if self.depth == 1 else self.z_max + 1)
        return self.replan_every == 1 and most <= FEW_NORMALS

    @property
    def columns(self) -> int:
        """How many standard normal numbers a plan takes for every arm."""
        return 1 if self.depth == 1 else self.prior.root.shape[-1]

    def draw(self, key: Array, rounds: Array) -> Array:
        """Pairs of normal numbers for every round, or a key."""
        if not self.draws_ahead:
            return super().draw(key, rounds)
        size = -(-self.columns * self.num_arms // 2) if self.depth == 1 else -(-self.columns // 2) * self.num_arms
        return prng.normal_pairs(key, rounds, size).reshape(len(rounds), size)

    def normals(self, key: Array) -> Array:
        """[columns, K] from what `draw` gave. Column by column, so that a root padded with zeros changes no number."""
        if not self.draws_ahead:
            return prng.normal(key, (self.columns, self.num_arms))
        if self.depth == 1:
            return prng.first_of_pairs(key, self.num_arms)[None, :]
        pairs = key.reshape(-1, 1, self.num_arms)
        both = jnp.concatenate([jnp.real(pairs), jnp.imag(pairs)], axis=1)
        return both.reshape(-1, self.num_arms)[: self.columns]

    def plan(self, key, state: PosteriorState, round: Round) -> Plan:
        points = slot_sets.mask(self.sampled(self.normals(key), state.posterior, round.z), round.available)
        return slot_sets.unmask(self.planner.plan_window(points), self.num_arms, round.available)

    def sampled(self, normals: Array, belief: Posterior, z: Array) -> Array:
        """A joint draw of the curves at the points within the window, [K, 2d − 1], from normals [columns, K]."""
        if self.depth == 1:  # one point per arm: its own variance is all there is to know
            mean, variance = posterior.moments_at(belief, z)
            return (mean + jnp.sqrt(variance + self.predictive_variance * self.noise**2) * normals[0])[:, None]
        mean, root = self.window(belief, z)
        return mean + jnp.einsum("kpr,rk->kp", root, normals, precision=jax.lax.Precision.HIGHEST)
