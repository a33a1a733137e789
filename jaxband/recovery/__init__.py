"""Recovery curves. Whatever the family, what comes out is a table `curves[K, G]`; nothing downstream asks for more."""

from jaxband.recovery import exponential as _exponential
from jaxband.recovery import gamma as _gamma
from jaxband.recovery import logistic as _logistic
from jaxband.recovery.exponential import exponential
from jaxband.recovery.gamma import gamma
from jaxband.recovery.gp import gp
from jaxband.recovery.logistic import logistic
from jaxband.recovery.parametric import Family
from jaxband.recovery.table import extend, table

FAMILIES = {  # name -> z_max -> Family
    "logistic": _logistic.family,
    "gamma": _gamma.family,
    "exponential": _exponential.family,
}

__all__ = ["FAMILIES", "Family", "exponential", "extend", "gamma", "gp", "logistic", "table"]
