"""What the paper proves, as functions one can evaluate."""

from jaxband.theory.planning import optimistic_error, smallest_share

__all__ = ["optimistic_error", "smallest_share"]
