"""Covariance functions of recovery curves. A new one is one file with one `record` and one line here."""

from jaxband.kernels.base import Constant, Kernel, Product, Stretched, Sum
from jaxband.kernels.gram_matrices import gram
from jaxband.kernels.linear import Linear
from jaxband.kernels.matern import Matern
from jaxband.kernels.periodic import Periodic
from jaxband.kernels.squared_exponential import SquaredExponential

__all__ = [
    "Constant",
    "Kernel",
    "Linear",
    "Matern",
    "Periodic",
    "Product",
    "SquaredExponential",
    "Stretched",
    "Sum",
    "gram",
]
