"""What the paper proves, as functions one can evaluate. A new statement is one function and one line here."""

from jaxband.theory.bounds import regret_bound_any, regret_bound_ts, regret_bound_ucb, regret_bound_ucb_z
from jaxband.theory.information import (
    greedy_information_gain,
    information_gain,
    information_gain_bound,
    maximal_information_gain,
)
from jaxband.theory.lemmas import gaussian_maximum, variance_per_information
from jaxband.theory.lookahead import lookahead_share
from jaxband.theory.planning import optimistic_error, smallest_share

__all__ = [
    "gaussian_maximum",
    "greedy_information_gain",
    "information_gain",
    "information_gain_bound",
    "lookahead_share",
    "maximal_information_gain",
    "optimistic_error",
    "regret_bound_any",
    "regret_bound_ts",
    "regret_bound_ucb",
    "regret_bound_ucb_z",
    "smallest_share",
    "variance_per_information",
]
