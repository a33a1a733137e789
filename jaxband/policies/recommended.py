"""What we would tell a user to run: pointwise optimism, beam search, end values, as much optimism as pays.

A point at rest z is taken to be better than its mean by as many standard deviations as make one try break even,
given the (T − t)/(1 + z) plays at that rest that are left (`optimism.worthwhile`). There is nothing to tune; it did
best or nearly so in every class of problems in docs/policies.md.
"""

from collections.abc import Sequence

from jaxband.kernels.base import Kernel
from jaxband.planners import beam
from jaxband.policies.learning import Learning
from jaxband.policies.rgp_pointwise import RgpPointwise, rgp_pointwise

DEPTH, WIDTH = 14, 16  # of the search; docs/policies.md


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
    (14, [2.4, 1.6, 1.3])
    """
    return rgp_pointwise(
        kernel, num_arms, z_max, noise, planner=beam(DEPTH, WIDTH), beta=None, horizon=horizon, learn=learn
    )
