"""Exact Gaussian-process posteriors of all recovery curves, as a mean and a square root of the covariance.

Per arm, covariance = root rootᵀ. Counts and sums per (arm, z) are sufficient and are the state of record; mean and
root can be rebuilt from them at any time (`refresh`). Read in this order: state, priors, updates, factors, queries.
"""

from jaxband.posterior.factors import log_evidence, refresh
from jaxband.posterior.priors import prior, rank
from jaxband.posterior.queries import covariance, mean, sample, variance, variance_of_sum
from jaxband.posterior.state import Posterior, moments_at, root_at
from jaxband.posterior.updates import condition, observe

__all__ = [
    "Posterior",
    "condition",
    "covariance",
    "log_evidence",
    "mean",
    "moments_at",
    "observe",
    "prior",
    "rank",
    "refresh",
    "root_at",
    "sample",
    "variance",
    "variance_of_sum",
]
