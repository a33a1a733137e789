"""Kernels learned from data: the evidence of a kernel, the kernel of largest evidence, and a choice among kernels."""

from jaxband.fit.compare import Comparison, Row, compare, flat_p_value
from jaxband.fit.evidence import Data, log_marginal_likelihood, summarise
from jaxband.fit.maximise import Fit, StandardErrors, fit_data, fit_kernel

__all__ = [
    "Comparison",
    "Data",
    "Fit",
    "Row",
    "StandardErrors",
    "compare",
    "fit_data",
    "fit_kernel",
    "flat_p_value",
    "log_marginal_likelihood",
    "summarise",
]
