"""What we would tell a user to run: pointwise optimism, beam search, terminal values, as much optimism as pays.

A point at rest z is taken to be better than its mean by as many standard deviations as make one try break even,
given the (T − t)/(1 + z) plays at that rest that are left (`break_even`). There is nothing to tune; it did best or
nearly so in every class of problems in docs/policies.md.
"""

from collections.abc import Sequence

from jaxband.base import Policy
from jaxband.kernels.base import Kernel
from jaxband.planners import beam
from jaxband.policies import costs
from jaxband.policies._rgp_pointwise import rgp_pointwise
from jaxband.registry import Cost, register

DEPTH, WIDTH = 14, 16  # of the search; docs/policies.md


def _cost(values) -> Cost:
    search = {"planner": "beam", "depth": DEPTH, "width": WIDTH, "replan_every": 1, "terminal_values": True}
    return costs.posterior_policy(values | search)


@register(
    "policy",
    cost=_cost,
    defaults={"kernel": "squared_exponential"},
    example={"kernel": "squared_exponential", "lengthscale": 2.0},
    told=("kernel", "noise", "horizon"),
)
def recommended(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    noise: float,
    horizon: int | None = None,
    *,
    refit_every: int | None = None,
    rank: int | None = None,
) -> Policy:
    """The policy that the study in docs/policies.md speaks for; give the `horizon` if you know it.

    If you are not sure of the kernel, let it fit the lengthscale and variance again after `refit_every` plays.

    >>> from jaxband.kernels import SquaredExponential
    >>> policy = recommended(SquaredExponential(4.0), num_arms=10, z_max=30, noise=0.1, horizon=1000)
    >>> policy.depth, [round(float(b), 1) for b in policy.optimism(t=0)[::15]]
    (14, [2.4, 1.6, 1.3])
    """
    options = {"planner": beam(DEPTH, WIDTH), "beta": None, "horizon": horizon}
    return rgp_pointwise(kernel, num_arms, z_max, noise, **options, refit_every=refit_every, rank=rank)
