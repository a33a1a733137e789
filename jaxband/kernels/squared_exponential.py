"""k(x, y) = variance · exp(−(x − y)² / (2 lengthscale²)): smooth curves, the kernel of the paper's experiments."""

import jax.numpy as jnp

from jaxband import checks
from jaxband.kernels.base import Kernel
from jaxband.pytree import pytree_dataclass
from jaxband.registry import register


@register(
    "kernel",
    name="squared_exponential",
    label="squared exponential",
    example={"lengthscale": 2.0},
    words={"lengthscale": ("lengthscale", "rounds")},
)
@pytree_dataclass()
class SquaredExponential(Kernel):
    """Smooth curves that change over about `lengthscale` rounds of rest.

    >>> float(SquaredExponential(lengthscale=5.0)(3.0, 3.0))
    1.0
    """

    lengthscale: float
    variance: float = 1.0

    def __post_init__(self):
        checks.positive("lengthscale", self.lengthscale)
        checks.positive("variance", self.variance)

    def __call__(self, x, y):
        return self.variance * jnp.exp(-0.5 * ((x - y) / self.lengthscale) ** 2)
