"""The default engine: in this process, on all its devices."""

from collections.abc import Iterator

import jax

from jaxband._runtime import devices
from jaxband.sweep.engines import execute
from jaxband.sweep.engines.compile_groups import shared_ranks, sorted_for_compilation
from jaxband.sweep.storage.units import Unit, UnitResult


def local_engine(units: list[Unit]) -> Iterator[tuple[Unit, UnitResult]]:
    """Every unit with its results, in the order in which they are done."""
    devices.warn_if_cores_idle()
    yield from execute.results(sorted_for_compilation(units), jax.local_devices(), shared_ranks(units))
