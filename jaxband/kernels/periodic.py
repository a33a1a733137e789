"""k(x, y) = variance · exp(−2 sin²(π (x − y) / period) / lengthscale²): curves that repeat every `period` rounds."""

import jax.numpy as jnp

from jaxband import checks
from jaxband.kernels.base import Kernel
from jaxband.pytree import pytree_dataclass
from jaxband.registry import register


@register(
    "kernel",
    name="periodic",
    label="periodic",
    example={"period": 5.0, "lengthscale": 1.0},
    words={"period": ("period", "rounds"), "lengthscale": ("lengthscale", "rounds")},
)
@pytree_dataclass()
class Periodic(Kernel):
    """Wants that come back: the same weekday, the same season.

    >>> round(float(Periodic(period=7.0, lengthscale=1.0)(0.0, 14.0)), 6)
    1.0
    """

    period: float
    lengthscale: float
    variance: float = 1.0

    def __post_init__(self):
        checks.positive("period", self.period)
        checks.positive("lengthscale", self.lengthscale)
        checks.positive("variance", self.variance)

    def __call__(self, x, y):
        wave = jnp.sin(jnp.pi * (x - y) / self.period) / self.lengthscale
        return self.variance * jnp.exp(-2.0 * wave**2)
