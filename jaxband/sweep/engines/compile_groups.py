"""Which units share a compilation, in which order they run, and what compiling and running cost.

Cells that differ only in numbers share a program. Kernels differ in the rank of their roots besides, which is a shape:
roots are padded with zeros to the largest rank of a group if that costs less than compiling for every rank. Padding
changes no bit of a result.
"""

import collections
import functools
from collections.abc import Iterable, Mapping

import jax

from jaxband import posterior, registry
from jaxband.policies import costs
from jaxband.registry import Cost
from jaxband.simulation.metrics import LOOKAHEAD
from jaxband.sweep.spec import build, settings
from jaxband.sweep.spec.cells import Cell
from jaxband.sweep.storage.units import Unit

MICROSECONDS = 1e-6
LOOKAHEAD_COMPILE = 3.0  # seconds, for the best sequences that the lookahead regret compares with
PADDING = 0.8  # of a round's cost, per column added and column there: 24 to 32 columns cost up to a quarter more


def sorted_for_compilation(units: Iterable[Unit]) -> list[Unit]:
    """Units that may share a compilation beside each other, cells in order of their numbers."""
    return sorted(units, key=lambda unit: (compile_group(unit), unit.cell.sort_key(), unit.start))


def compile_group(unit: Unit) -> tuple[str, ...]:
    """What two units must have in common to share a compilation of the simulation."""
    problem = unit.cell.problem
    shapes = [(name, value) for name, value in unit.cell.settings.items() if not _is_number(name)]
    return str(unit.cell.code), *(f"{name}={value}" for name, value in sorted(shapes)), problem.get("factory", "")


@functools.cache
def _is_number(name: str) -> bool:
    """Does another value of the setting leave all shapes as they are?"""
    if name in settings.RULES:
        return name in settings.NUMBERS
    known = settings.find(name, registry.entries("policy").values())
    return bool(known) and all(setting.is_number for setting in known)


def shared_ranks(units: Iterable[Unit]) -> dict[str, int]:
    """How many columns the root of each cell's posterior gets, by the cell's identity, if it has one."""
    groups = collections.defaultdict(lambda: collections.defaultdict(float))  # seconds to run, by group and cell
    for unit in units:
        if _kernel_setting(unit.cell):
            groups[compile_group(unit)][unit.cell] += seconds_of(unit) / jax.local_device_count()
    shared = {}
    for seconds in groups.values():
        own = {cell: _rank(cell) for cell in seconds}
        largest = max(own.values())
        padding = sum(PADDING * (largest / own[cell] - 1.0) * seconds[cell] for cell in own)
        saved = (len(set(own.values())) - 1) * max(cost(cell).compile for cell in own)
        shared |= {cell.identity: largest if padding < saved else rank for cell, rank in own.items()}
    return shared


def _kernel_setting(cell: Cell) -> str | None:
    """The setting that names the kernel of a policy whose rank can be chosen."""
    if cell.code is not None:
        return None
    entry = registry.entry("policy", cell.settings["policy"])
    kernel_settings = [setting.name for setting in entry.settings.values() if setting.reference == "kernel"]
    return kernel_settings[0] if kernel_settings and "rank" in entry.asks_for else None


def _rank(cell: Cell) -> int:
    kernel = build.part("kernel", cell.settings, _kernel_setting(cell))
    return posterior.rank(kernel, cell.settings["z_max"])


def seconds_of(unit: Unit) -> float:
    """On one device, without compiling."""
    return (unit.stop - unit.start) * unit.cell.settings["horizon"] * cost(unit.cell).round * MICROSECONDS


def cost(cell: Cell) -> Cost:
    """Per round and to compile: the policy's own, and what the lookahead regret adds."""
    entry = registry.entry("policy", cell.settings["policy"]) if cell.code is None else None
    values: Mapping = {name: value for name, value in cell.settings.items() if value != settings.NONE}
    known = costs.UNKNOWN if entry is None or entry.cost is None else entry.cost(values)
    if LOOKAHEAD not in cell.metrics:
        return known
    search = cell.settings["num_arms"] * 3**cell.lookahead * 0.008 / cell.lookahead
    return Cost(known.round + search, known.compile + LOOKAHEAD_COMPILE)
