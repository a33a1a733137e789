"""Matérn kernels with ν = 1/2, 3/2, 5/2: curves with 0, 1 or 2 derivatives (Rasmussen & Williams, section 4.2.1)."""

import jax.numpy as jnp

from jaxband import checks
from jaxband.kernels.base import Kernel
from jaxband.pytree import pytree_dataclass
from jaxband.registry import register

# With s = √(2ν) |x − y| / lengthscale, k = variance · polynomial(s) · e^(−s).
POLYNOMIALS = {0.5: lambda s: 1.0 + 0.0 * s, 1.5: lambda s: 1.0 + s, 2.5: lambda s: 1.0 + s + s**2 / 3.0}


@register(
    "kernel",
    name="matern",
    label="Matérn",
    example={"nu": 1.5, "lengthscale": 2.0},
    words={"nu": ("ν", ""), "lengthscale": ("lengthscale", "rounds")},
)
@pytree_dataclass(static=("nu",))
class Matern(Kernel):
    """Curves rougher than a squared exponential's.

    >>> round(float(Matern(nu=0.5, lengthscale=2.0)(0.0, 2.0)), 4)
    0.3679
    """

    nu: float
    lengthscale: float
    variance: float = 1.0

    def __post_init__(self):
        if self.nu not in POLYNOMIALS:
            raise ValueError(f"nu must be one of {sorted(POLYNOMIALS)}, got {self.nu!r}")
        checks.positive("lengthscale", self.lengthscale)
        checks.positive("variance", self.variance)

    def __call__(self, x, y):
        s = (2.0 * self.nu) ** 0.5 * jnp.abs(x - y) / self.lengthscale
        return self.variance * POLYNOMIALS[self.nu](s) * jnp.exp(-s)
