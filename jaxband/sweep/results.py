"""Read a results directory: arrays per cell, a table of summaries, named dimensions."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np

from jaxband import registry
from jaxband.simulation import summaries
from jaxband.sweep import paired
from jaxband.sweep.spec import settings
from jaxband.sweep.spec.cells import Cell
from jaxband.sweep.spec.settings import is_default_from_other
from jaxband.sweep.storage import results_directory, trajectories
from jaxband.sweep.storage.filesystem import FileSystem
from jaxband.sweep.storage.manifest import Manifest
from jaxband.sweep.storage.units import StoredUnit, UnitResult

STATISTICS = summaries.Summary._fields
MOST_VALUES = 10**8  # of one metric, in an array with named dimensions


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """What a sweep has so far; cells are sorted by their settings."""

    manifest: Manifest
    cells: list[Cell]  # those with results
    totals: list[dict[str, np.ndarray]]  # per cell, [replications] by metric, in replication order from 0
    trajectories: list[dict[str, np.ndarray]]  # per cell, [kept, C] by metric: cumulative, the first so many
    rejected: list[tuple[str, str]]  # (name, reason) of files that were passed over

    @property
    def missing(self) -> int:
        """How many replications are still to be run, over all cells."""
        have = sum(len(next(iter(arrays.values()))) for arrays in self.totals)
        return len(self.manifest.cells) * self.manifest.replications - have

    def rows(self) -> list[dict]:
        """A row per cell and metric: the cell's settings, the number of replications, and the summary."""
        rows = []
        both = zip(self.cells, self.totals, strict=True)
        for (cell, arrays), metric in itertools.product(both, self.manifest.metrics):
            summary = summaries.summarize(arrays[metric])._asdict()
            given = {name: cell.settings.get(name) for name in self.columns()}
            rows.append(given | {"metric": metric, "replications": len(arrays[metric])} | summary)
        return rows

    def columns(self) -> list[str]:
        """The settings that some cell has, in a fixed order."""
        return settings.names_in(self.manifest.cells)

    def paired(self, metric: str = "total_reward", against: str | None = None, confidence: float = 0.95) -> list[dict]:
        """Differences between policies on the same curves and noise, with intervals and Holm's correction."""
        if metric not in self.manifest.metrics:
            raise ValueError(registry.unknown("metric", metric, self.manifest.metrics))
        values = [arrays[metric] for arrays in self.totals]
        return paired.differences(self.cells, values, metric, against, confidence)

    def checkpoints(self, cell: int) -> np.ndarray:
        """Rounds after which the trajectories of the cell at that place in `cells` are taken, [C]."""
        return trajectories.checkpoints(self.cells[cell])

    def band(self, cell: int, metric: str) -> summaries.Band | None:
        """A cumulative metric over time, of the trajectories that were kept; None if there are none."""
        kept = self.trajectories[cell][metric]
        if not len(kept):
            return None
        builder = summaries.TrajectoryStats()
        builder.add(kept)
        return builder.band()

    def to_xarray(self):
        """A Dataset with one variable per metric; dimensions are the settings that vary, and `replication`.

        A policy that does not use a setting has the same values all along it. What was not run is nan.
        """
        try:
            import xarray
        except ImportError:
            raise ImportError("named dimensions need xarray; install it with: pip install 'jaxband[results]'") from None
        axes = self.axes()
        shape = [*map(len, axes.values()), self.manifest.replications]
        if np.prod(shape, dtype=float) > MOST_VALUES:
            raise ValueError(f"an array of shape {shape} would be mostly empty; use rows(), or cells and arrays")
        data = {metric: np.full(shape, np.nan) for metric in self.manifest.metrics}
        for cell, arrays in zip(self.cells, self.totals, strict=True):
            places = [
                [values.index(cell.settings[name])] if name in cell.settings else range(len(values))
                for name, values in axes.items()
            ]
            for metric, array in arrays.items():
                for place in itertools.product(*places):
                    data[metric][(*place, slice(len(array)))] = array
        dimensions = [*axes, "replication"]
        shown = {name: [str(v) if isinstance(v, list) else v for v in values] for name, values in axes.items()}
        coordinates = shown | {"replication": np.arange(self.manifest.replications)}
        return xarray.Dataset({m: (dimensions, x) for m, x in data.items()}, coordinates, {"name": self.manifest.name})

    def axes(self) -> dict[str, list]:
        """The values of every setting that varies by itself, sorted."""
        axes = {}
        for name in self.columns():
            having = [cell.settings for cell in self.manifest.cells if name in cell.settings]
            values = sorted({repr(given[name]): given[name] for given in having}.values(), key=settings.rank)
            if len(values) > 1 and not all(is_default_from_other(name, given) for given in having):
                axes[name] = values
        return axes


def load(directory: Path | str, disk: FileSystem | None = None) -> Results:
    """What is in a results directory. Files that must not be used are passed over and named in `rejected`."""
    directory, disk = Path(directory), disk or FileSystem()
    manifest = results_directory.read_manifest(directory, disk)
    found = results_directory.scan(directory, manifest, disk)
    cells = sorted((c for c in manifest.cells if found.pieces[c.identity]), key=Cell.sort_key)
    unbroken = {cell: parts for cell in cells if (parts := _unbroken(found.pieces[cell.identity]))}
    totals = [_joined([part.totals for part in parts]) for parts in unbroken.values()]
    paths = [_joined([part.trajectories for part in parts]) for parts in unbroken.values()]
    return Results(manifest, list(unbroken), totals, paths, found.rejected)


def _unbroken(pieces: list[StoredUnit]) -> list[UnitResult]:
    """The replications from 0 up to the first that is missing; none if 0 is."""
    unbroken, stop = [], 0
    for piece in pieces:
        if piece.start != stop:
            break
        unbroken.append(piece.measured)
        stop = piece.stop
    return unbroken


def _joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {metric: np.concatenate([part[metric] for part in parts]) for metric in parts[0]}
