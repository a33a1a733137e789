"""Planners: which d arms to play next. A new one is one file that fulfils `base.Planner` and one line here."""

from jaxband.planners.exhaustive import exhaustive

__all__ = ["exhaustive"]
