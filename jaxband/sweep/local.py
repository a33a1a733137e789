"""The default engine: in this process, on all its devices."""

from collections.abc import Iterator

import jax

from jaxband import devices
from jaxband.sweep import compute
from jaxband.sweep.units import Measured, Unit


def local(units: list[Unit]) -> Iterator[tuple[Unit, Measured]]:
    """Every unit with its results, in the order in which they are done."""
    devices.say_if_cores_are_idle()
    yield from compute.results(compute.in_order(units), jax.local_devices())
