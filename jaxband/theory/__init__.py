"""What the paper proves, as functions one can evaluate. A new statement is one function and one line here."""

from jaxband.theory.information import (
    greedy_information_gain,
    information_gain,
    information_gain_bound,
    maximal_information_gain,
)
from jaxband.theory.lemmas import gaussian_maximum, variance_per_information
from jaxband.theory.proposition1 import guaranteed_fraction
from jaxband.theory.proposition2 import optimistic_error, smallest_near_optimal_fraction
from jaxband.theory.regret_bounds import regret_bound_ts, regret_bound_ucb, regret_bound_ucb_z, trivial_regret_bound

__all__ = [
    "gaussian_maximum",
    "greedy_information_gain",
    "guaranteed_fraction",
    "information_gain",
    "information_gain_bound",
    "maximal_information_gain",
    "optimistic_error",
    "regret_bound_ts",
    "regret_bound_ucb",
    "regret_bound_ucb_z",
    "smallest_near_optimal_fraction",
    "trivial_regret_bound",
    "variance_per_information",
]
