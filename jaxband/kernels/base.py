"""Covariance functions as immutable pytrees, evaluated on one pair of points; `+` and `*` nest and never flatten."""

import jax
import numpy as np
from jax import Array

from jaxband import checks
from jaxband.pytree import pytree_dataclass
from jaxband.registry import register, register_type


class Kernel:
    """k(x, y). Subclasses are `record`s whose fields are the hyperparameters."""

    signed = ()  # names of hyperparameters that may be 0 or negative: places, not scales

    def __call__(self, x: Array, y: Array) -> Array:
        raise TypeError(f"{type(self).__name__} does not define __call__(x, y)")

    def __add__(self, other):
        return Sum(self, as_kernel(other))

    def __radd__(self, other):
        return Sum(as_kernel(other), self)

    def __mul__(self, other):
        return Product(self, as_kernel(other))

    def __rmul__(self, other):
        return Product(as_kernel(other), self)


register_type("kernel", Kernel)


@register("kernel", name="constant", label="constant")
@pytree_dataclass()
class Constant(Kernel):
    """k(x, y) = variance: the same unknown value at every rest, that is no recovery at all."""

    variance: float = 1.0

    def __post_init__(self):
        checks.positive("variance", self.variance)

    def __call__(self, x, y):
        return self.variance + 0.0 * (x * y)


@pytree_dataclass()
class Sum(Kernel):
    """k(x, y) = left(x, y) + right(x, y): the curve is the sum of two independent ones."""

    left: Kernel
    right: Kernel

    def __call__(self, x, y):
        return self.left(x, y) + self.right(x, y)


@pytree_dataclass()
class Product(Kernel):
    """k(x, y) = left(x, y) · right(x, y)."""

    left: Kernel
    right: Kernel

    def __call__(self, x, y):
        return self.left(x, y) * self.right(x, y)


@pytree_dataclass()
class Stretched(Kernel):
    """k(x / factor, y / factor): the same curves, `factor` times as slow."""

    kernel: Kernel
    factor: float

    def __post_init__(self):
        checks.positive("factor", self.factor)

    def __call__(self, x, y):
        return self.kernel(x / self.factor, y / self.factor)


def as_kernel(value) -> Kernel:
    """Kernels as they are; a number as the constant kernel of that variance."""
    if isinstance(value, Kernel):
        return value
    if isinstance(value, jax.Array) or (np.ndim(value) == 0 and isinstance(value, (int, float, np.number))):
        return Constant(value)
    raise TypeError(f"kernel must be a jaxband.kernels.Kernel or a number, got {value!r}")


def is_traced(kernel: Kernel) -> bool:
    """Is any hyperparameter only known inside a trace?"""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(kernel))
