"""How long does a sweep take to find out what is left? A directory of 10,000 units, one in a hundred missing.

    python benchmarks/sweep_resume.py [--units 10000] [--replications 512] [--json FILE]

Every file is read and its SHA-256 checked. The results are made up; writing them (with fsync) is timed beside.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import tables

from jaxband import sweep
from jaxband.sweep.storage import trajectories
from jaxband.sweep.storage.units import UnitResult


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--replications", type=int, default=512, help="of one unit")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rows = [measure(Path(directory), arguments.units, arguments.replications)]
    tables.show(rows, arguments.json)


def measure(directory: Path, units: int, replications: int) -> dict:
    """Seconds to write the units, to read the spec, to find out what is left, and to load everything."""
    began = time.perf_counter()
    spec = sweep.Spec(
        "resume",
        replications=10 * replications,
        replications_per_unit=replications,
        horizon=1000,
        problems={"p": {"family": "logistic", "theta": [[1.0, 0.5, 10.0]] * 10}},
        grid={"policy": "random", "z_max": 30, "seed": list(range(units // 10))},
    )
    read = time.perf_counter() - began
    written = timed(lambda: sweep.run(spec, directory, engine=made_up, progress=False))
    for path in sorted((directory / "units").iterdir())[::100]:
        path.unlink()
    left = []
    resumed = timed(lambda: sweep.run(spec, directory, engine=lambda units: left.extend(units) or (), progress=False))
    loaded = timed(lambda: sweep.load(directory))
    assert len(left) == units // 100
    row = {"units": units, "replications each": replications, "written, s": written, "spec, s": read}
    return row | {"what is left, s": resumed, "load, s": loaded}


def made_up(units):
    rng = np.random.default_rng(0)
    for unit in units:
        kept = trajectories.kept(unit.cell, unit.start, unit.stop), len(trajectories.checkpoints(unit.cell))
        shapes = (unit.stop - unit.start,), kept
        yield unit, UnitResult(*({metric: rng.normal(size=s) for metric in unit.cell.metrics} for s in shapes))


def timed(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
