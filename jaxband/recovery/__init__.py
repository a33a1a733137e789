"""Recovery curves. Whatever the family, what comes out is a table `curves[K, G]`; nothing downstream asks for more."""

from jaxband.recovery.gamma import gamma
from jaxband.recovery.gp import gp
from jaxband.recovery.logistic import logistic
from jaxband.recovery.table import extend, table

__all__ = ["extend", "gamma", "gp", "logistic", "table"]
