"""k(x, y) = variance · (x − offset)(y − offset): straight lines through zero at `offset`."""

from jaxband import checks
from jaxband.base import record
from jaxband.kernels.base import Kernel


@record()
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
