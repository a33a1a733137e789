"""What we would tell a user to run: pointwise optimism, a short lookahead, end values, as much optimism as pays.

A point at rest z is taken to be better than its mean by as many standard deviations as make one try break even,
given the (T − t)/(1 + z) plays at that rest that are left (`optimism.worthwhile`). There is nothing to tune; it did
best or nearly so in every class of problems in docs/policies.md.
"""

from collections.abc import Sequence

from jaxband import checks
from jaxband.kernels.base import Kernel
from jaxband.planners import subset
from jaxband.policies.learning import Learning
from jaxband.policies.rgp_pointwise import RgpPointwise, rgp_pointwise

FEW_ARMS = 10  # up to here a deeper plan costs about as much as the price does


def recommended(
    kernel: Kernel | Sequence[Kernel],
    num_arms: int,
    z_max: int | Sequence[int],
    noise: float,
    horizon: int | None = None,
    *,
    learn: int | None = None,
) -> RgpPointwise | Learning:
    """The policy that the study in docs/policies.md speaks for; give the `horizon` if you know it.

    If you are not sure of the kernel, let it `learn` the lengthscale and variance after every so many plays.

    >>> from jaxband.kernels import SquaredExponential
    >>> policy = recommended(SquaredExponential(4.0), num_arms=10, z_max=30, noise=0.1, horizon=1000)
    >>> policy.depth, [round(float(b), 1) for b in policy.optimism(t=0)[::15]]
    (6, [2.4, 1.6, 1.3])
    """
    num_arms = checks.whole_number("num_arms", num_arms, minimum=1)
    planner = subset(depth_for(num_arms))
    return rgp_pointwise(kernel, num_arms, z_max, noise, planner=planner, beta=None, horizon=horizon, learn=learn)


def depth_for(num_arms: int) -> int:
    """How many plays to look ahead."""
    return 6 if num_arms <= FEW_ARMS else 3
