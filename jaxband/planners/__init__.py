"""Planners: which d arms to play next. A new one is one file that fulfils `base.Planner` and one line here."""

from jaxband.planners._beam import beam
from jaxband.planners._exhaustive import exhaustive
from jaxband.planners._optimistic import optimistic
from jaxband.planners._subset import subset
from jaxband.planners._whittle import whittle

__all__ = ["beam", "exhaustive", "optimistic", "subset", "whittle"]
