"""Recovery curves. Whatever the family, what comes out is a table `curves[K, G]`; nothing downstream asks for more."""

from jaxband.recovery import _exponential, _gamma, _logistic
from jaxband.recovery._exponential import exponential
from jaxband.recovery._gamma import gamma
from jaxband.recovery._gp import gp
from jaxband.recovery._logistic import logistic
from jaxband.recovery._table import hold_after, table
from jaxband.recovery.parametric import ParametricFamily

FAMILIES = {  # name -> z_max -> ParametricFamily
    "logistic": _logistic.family,
    "gamma": _gamma.family,
    "exponential": _exponential.family,
}

__all__ = ["FAMILIES", "ParametricFamily", "exponential", "gamma", "gp", "hold_after", "logistic", "table"]
