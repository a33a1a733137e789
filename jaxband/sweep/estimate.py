"""What a sweep will take, before it is run: cells, units, compilations and a rough time.

The time comes from a table of costs per round, measured on one core of an AMD EPYC at 2.4 GHz, not from a
trial run: a factor of two either way is to be expected (benchmarks/sweep_costs.py compares).
"""

import collections
from pathlib import Path

import jax

from jaxband.sweep import paired, tables
from jaxband.sweep.engines import execute
from jaxband.sweep.engines.compile_groups import cost, seconds_of, shared_ranks
from jaxband.sweep.spec.spec import Spec
from jaxband.sweep.storage import manifest, results_directory, units
from jaxband.sweep.storage.filesystem import FileSystem


def describe(spec: Spec, out: Path | None = None) -> str:
    """Text for a person: one line per cell and the sums."""
    wanted = manifest.make_manifest(spec)
    left = missing(spec, wanted, out)
    ranks = shared_ranks(left)
    shapes = {cell: execute.prepare(cell, ranks.get(cell.identity)).compile_key for cell in wanted.cells}
    numbers = {shape: n for n, shape in enumerate(dict.fromkeys(shapes.values()), start=1)}
    waiting = collections.Counter(unit.cell for unit in left)
    world = paired.environment_settings(list(wanted.cells))
    varying = [n for n in world if len({repr(paired.of_environment(cell, n)) for cell in wanted.cells}) > 1]
    lines = [
        {"cell": n, "policy": label}
        | {name: paired.of_environment(cell, name) for name in varying}
        | {"units": waiting[cell], "compiled": f"shape {numbers[shapes[cell]]}"}
        for n, (cell, label) in enumerate(zip(wanted.cells, paired.labels(list(wanted.cells)), strict=True), start=1)
    ]
    needed = {shapes[unit.cell]: unit.cell for unit in left}
    devices = jax.local_device_count()
    seconds = sum(seconds_of(unit) for unit in left) / devices + sum(cost(cell).compile for cell in needed.values())
    return tables.aligned(lines) + (
        f"\n{len(wanted.cells)} cells, {len(left)} units to run, {len(needed)} compilations; about {_time(seconds)} "
        f"on {devices} devices (from a table of costs; a factor of 2 either way)"
    )


def missing(spec: Spec, wanted: manifest.Manifest, out: Path | None) -> list[units.Unit]:
    """What is left to run in `out`, found out without changing anything; everything if there is no such directory."""
    done = collections.defaultdict(list)
    if out is not None and (content := FileSystem().read(Path(out) / "spec.json")) is not None:
        manifest.check_extends(wanted, manifest.from_bytes(content))
        found = results_directory.scan(Path(out), wanted, FileSystem(), with_results=False)
        for cell, pieces in found.pieces.items():
            done[cell] = [(piece.start, piece.stop) for piece in pieces]
    size = spec.replications_per_unit
    return [u for cell in wanted.cells for u in units.missing(cell, done[cell.identity], spec.replications, size)]


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
