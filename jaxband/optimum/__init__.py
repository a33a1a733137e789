"""How good can a policy be? A bound for problems of any size, the best cycle and the best sequence of small ones."""

from jaxband.optimum.dual import DualBound, at_price, certificate, dual_bound, end_values, head_start, track
from jaxband.optimum.exact import Exact, exact
from jaxband.optimum.finite import Finite, finite

__all__ = [
    "DualBound",
    "Exact",
    "Finite",
    "at_price",
    "certificate",
    "dual_bound",
    "end_values",
    "exact",
    "finite",
    "head_start",
    "track",
]
