"""How good can a policy be? A bound for problems of any size, the best cycle and the best sequence of small ones."""

from jaxband.optimum._best_cycle import Exact, exact
from jaxband.optimum._best_sequence import Finite, finite
from jaxband.optimum.dual import (
    DualBound,
    bound_at_price,
    dual_bound,
    dual_bound_from,
    head_start,
    terminal_values,
    total_reward_bound,
)

__all__ = [
    "DualBound",
    "Exact",
    "Finite",
    "bound_at_price",
    "dual_bound",
    "dual_bound_from",
    "exact",
    "finite",
    "head_start",
    "terminal_values",
    "total_reward_bound",
]
