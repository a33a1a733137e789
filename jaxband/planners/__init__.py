"""Planners: which d arms to play next. A new one is one file that fulfils `base.Planner` and one line here."""

from jaxband.planners.beam import beam
from jaxband.planners.exhaustive import exhaustive
from jaxband.planners.optimistic import optimistic
from jaxband.planners.subset import subset
from jaxband.planners.whittle import whittle

__all__ = ["beam", "exhaustive", "optimistic", "subset", "whittle"]
