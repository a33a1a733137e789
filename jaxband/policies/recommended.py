"""What we would tell a user to run: pointwise optimism, a short lookahead, end values, as much optimism as pays.

Optimism of 2.3 standard deviations that fades to nothing at the horizon did best or nearly so in every class of
problems in docs/policies.md, from T = 1,000 on. With fewer rounds for every unknown number it is too much: there are
K·u of them, u = (tr k)² / tr k² being how many numbers a curve of this kernel amounts to. Hence

    β = min(2.3, √(2 ln(1 + 1.2 T / (K u)))).
"""

import math
from collections.abc import Sequence

import numpy as np

from jaxband import checks
from jaxband.kernels.base import Kernel, as_kernel, exact_gram
from jaxband.planners import subset
from jaxband.policies.learning import Learning
from jaxband.policies.rgp_pointwise import RgpPointwise, rgp_pointwise

MOST_OPTIMISM = 2.3
FEW_ARMS = 10  # a plan of four plays costs less than the price does; with more arms it is the other way round


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
    >>> policy.depth, round(float(policy.beta), 2)
    (4, 2.3)
    """
    num_arms = checks.whole_number("num_arms", num_arms, minimum=1)
    beta = MOST_OPTIMISM
    if horizon is not None:
        horizon = checks.whole_number("horizon", horizon, minimum=1)
        beta = min(beta, math.sqrt(2.0 * math.log1p(1.2 * horizon / _unknowns(kernel, num_arms, z_max))))
    planner = subset(4 if num_arms <= FEW_ARMS else 3)
    return rgp_pointwise(kernel, num_arms, z_max, noise, planner=planner, beta=beta, horizon=horizon, learn=learn)


def _unknowns(kernel, num_arms: int, z_max) -> float:
    """How many numbers all curves together amount to."""
    kernels = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel] * num_arms
    limits = list(z_max) if np.ndim(z_max) else [z_max] * num_arms
    sizes = {}
    for pair in zip(kernels, limits, strict=True):
        key = id(pair[0]), int(pair[1])
        sizes[key] = sizes.get(key) or _numbers_in(*pair)
    return sum(sizes[id(k), int(limit)] for k, limit in zip(kernels, limits, strict=True))


def _numbers_in(kernel, z_max: int) -> float:
    """u of one curve: 1 if it is constant, G if its values are independent."""
    gram = exact_gram(as_kernel(kernel), np.arange(z_max + 1))
    return np.trace(gram) ** 2 / max(np.sum(gram * gram), np.finfo(float).tiny)
