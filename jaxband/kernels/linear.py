"""k(x, y) = variance · (x − offset)(y − offset): straight lines through zero at `offset`."""

from jaxband import checks
from jaxband.kernels.base import Kernel
from jaxband.pytree import pytree_dataclass
from jaxband.registry import register


@register("kernel", name="linear", label="linear", example={"variance": 0.02}, words={"offset": ("offset", "rounds")})
@pytree_dataclass()
class Linear(Kernel):
    """Lines of random slope. The prior variance at z is variance · (z − offset)²: scale it to your rewards.

    >>> float(Linear(variance=0.01)(10.0, 10.0))
    1.0
    """

    variance: float = 1.0
    offset: float = 0.0
    signed = ("offset",)

    def __post_init__(self):
        checks.positive("variance", self.variance)
        checks.finite("offset", self.offset)

    def __call__(self, x, y):
        return self.variance * (x - self.offset) * (y - self.offset)
