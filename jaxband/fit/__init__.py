"""Kernels learned from data: the evidence of a kernel, the kernel of largest evidence, and a choice among kernels."""

from jaxband.fit.evidence import PlayStatistics, log_marginal_likelihood, sufficient_statistics
from jaxband.fit.optimize import Fit, StandardErrors, fit_kernel, fit_statistics
from jaxband.fit.ranking import Comparison, KernelScore, compare, no_recovery_p_value

__all__ = [
    "Comparison",
    "Fit",
    "KernelScore",
    "PlayStatistics",
    "StandardErrors",
    "compare",
    "fit_kernel",
    "fit_statistics",
    "log_marginal_likelihood",
    "no_recovery_p_value",
    "sufficient_statistics",
]
