"""Sweeps that can be killed at any moment and resumed: policies × problems × settings × thousands of replications.

Read in this order: spec, settings, problems, cells, trajectories, units, disk, frozen, store, compute, local,
cluster, run, results.
"""

from jaxband.sweep.cluster import ray_engine
from jaxband.sweep.local import local
from jaxband.sweep.results import Results, load
from jaxband.sweep.run import Outcome, run
from jaxband.sweep.spec import Spec, SpecError, read
from jaxband.sweep.store import Busy
from jaxband.sweep.units import CorruptUnit

__all__ = [
    "Busy",
    "CorruptUnit",
    "Outcome",
    "Results",
    "Spec",
    "SpecError",
    "load",
    "local",
    "ray_engine",
    "read",
    "run",
]
