"""Sweeps that can be killed at any moment and resumed: policies × problems × settings × thousands of replications.

Read in this order: spec (settings, user_code, catalog, problems, build, cells, spec), storage (trajectories, units,
filesystem, manifest, results_directory), engines (execute, local, ray_cluster), _run, results.
"""

from jaxband.sweep._run import Outcome, run
from jaxband.sweep.engines.local import local_engine
from jaxband.sweep.engines.ray_cluster import ray_engine
from jaxband.sweep.results import Results, load
from jaxband.sweep.spec.spec import Spec, SpecError, read_spec
from jaxband.sweep.storage.results_directory import DirectoryBusyError
from jaxband.sweep.storage.units import CorruptUnitError

__all__ = [
    "CorruptUnitError",
    "DirectoryBusyError",
    "Outcome",
    "Results",
    "Spec",
    "SpecError",
    "load",
    "local_engine",
    "ray_engine",
    "read_spec",
    "run",
]
