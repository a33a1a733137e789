"""Units of work, a stretch of one cell's replications each, and the files that hold their results.

A file is three lines of text and then numbers:

    jaxband unit 4                       the schema
    3f0a…                                SHA-256 of all that follows; also the name of the file
    {"cell": "…", "identity": "…", …}    whose results these are, and what the numbers are
    totals [metrics, replications] in little-endian float64, then trajectories [metrics, kept, C] in float32

Nothing in it depends on when, where or beside what a unit was run, so that the same unit is always the same bytes.
"""

import hashlib
import json
from typing import NamedTuple

import numpy as np

from jaxband.sweep.spec.cells import SCHEMA, Cell, canonical_json, digest
from jaxband.sweep.storage import trajectories

MAGIC = f"jaxband unit {SCHEMA}\n".encode()
SUFFIX = ".unit"
ROUNDS_PER_UNIT = 2**20  # about a second: what a crash can cost, and how often a file is written
UNITS_PER_CELL = 8  # at least, if it has enough replications
SMALLEST_UNIT = 64  # replications; what runs side by side on a CPU
LARGEST_UNIT = 4096
TOTALS = np.dtype("<f8")


class CorruptUnitError(ValueError):
    """A result file that is damaged, or is not what its name and its sweep say."""


class Unit(NamedTuple):
    """Replications start … stop − 1 of a cell."""

    cell: Cell
    start: int
    stop: int

    @property
    def identity(self) -> str:
        return identity(self.cell.identity, self.start, self.stop)


class UnitResult(NamedTuple):
    """What an engine finds out about a unit, by metric."""

    totals: dict[str, np.ndarray]  # [stop − start] each
    trajectories: dict[str, np.ndarray]  # [kept, C] each: cumulative, of the cell's first replications


class StoredUnit(NamedTuple):
    """The results of a unit, read back."""

    cell: str  # identity of the cell
    start: int
    stop: int
    measured: UnitResult
    checkpoints: list[int]  # rounds after which trajectories are taken
    name: str  # of the file


def identity(cell: str, start: int, stop: int) -> str:
    return digest([SCHEMA, cell, start, stop])


def size_of(cell: Cell, replications: int) -> int:
    """How many replications make a unit, unless the spec says so; a cell has several, for several devices."""
    size = min(ROUNDS_PER_UNIT // cell.settings["horizon"], -(-replications // UNITS_PER_CELL))
    return min(max(size + -size % SMALLEST_UNIT, SMALLEST_UNIT), LARGEST_UNIT)


def missing(cell: Cell, done: list[tuple[int, int]], replications: int, size: int | None) -> list[Unit]:
    """What is left of replications 0 … R − 1, cut at multiples of `size`; `done` are stretches that do not overlap."""
    size, units, start = size or size_of(cell, replications), [], 0
    for gap_stop, next_start in [*sorted(done), (replications, replications)]:
        while start < gap_stop:
            stop = min(start - start % size + size, gap_stop)
            units.append(Unit(cell, start, stop))
            start = stop
        start = max(start, next_start)
    return units


def pack(unit: Unit, measured: UnitResult) -> tuple[str, bytes]:
    """The name and the content of a unit's file."""
    header = {
        "schema": SCHEMA,
        "cell": unit.cell.identity,
        "start": unit.start,
        "stop": unit.stop,
        "identity": unit.identity,
        "metrics": list(unit.cell.metrics),
        "kept": trajectories.kept(unit.cell, unit.start, unit.stop),
        "checkpoints": trajectories.checkpoints(unit.cell).tolist(),
    }
    shape = header["kept"], len(header["checkpoints"])
    numbers = [_checked(name, measured.totals[name], (unit.stop - unit.start,), TOTALS) for name in unit.cell.metrics]
    numbers += [_checked(name, measured.trajectories[name], shape, trajectories.TYPE) for name in unit.cell.metrics]
    body = canonical_json(header).encode() + b"\n" + b"".join(numbers)
    sha256 = hashlib.sha256(body).hexdigest()
    return sha256 + SUFFIX, MAGIC + sha256.encode() + b"\n" + body


def _checked(name: str, array: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {list(shape)}, got {list(array.shape)}")
    return np.ascontiguousarray(array, dtype).tobytes()


def unpack(name: str, content: bytes) -> StoredUnit:
    """The results in a file of that name. Raises CorruptUnitError unless every byte is as it was written."""
    try:
        return _unpack(name, content)
    except CorruptUnitError as error:
        raise CorruptUnitError(f"{name}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptUnitError(f"{name}: not a unit of this library ({type(error).__name__}: {error})") from None


def _unpack(name: str, content: bytes) -> StoredUnit:
    if not content.startswith(MAGIC):
        raise CorruptUnitError("is no result file, or one of another version")
    digest_end = len(MAGIC) + 64
    sha256, body = content[len(MAGIC) : digest_end], memoryview(content)[digest_end + 1 :]
    if hashlib.sha256(body).hexdigest().encode() != sha256 or content[digest_end : digest_end + 1] != b"\n":
        raise CorruptUnitError("is damaged: its SHA-256 is not the one it was written with")
    if name != sha256.decode() + SUFFIX:
        raise CorruptUnitError("holds the results of another file")
    header_end = content.index(b"\n", digest_end + 1)
    header, numbers = json.loads(content[digest_end + 1 : header_end]), memoryview(content)[header_end + 1 :]
    cell, start, stop, metrics = header["cell"], header["start"], header["stop"], header["metrics"]
    kept, checkpoints = header["kept"], header["checkpoints"]
    if header["schema"] != SCHEMA or header["identity"] != identity(cell, start, stop):
        raise CorruptUnitError("has an inconsistent header: its identity does not match cell, start and stop")
    split = 8 * len(metrics) * (stop - start)
    if not 0 <= start < stop or len(numbers) != split + 4 * len(metrics) * kept * len(checkpoints):
        raise CorruptUnitError("has the wrong size")
    totals = np.frombuffer(numbers[:split], TOTALS).reshape(len(metrics), stop - start)
    values = np.frombuffer(numbers[split:], trajectories.TYPE).reshape(len(metrics), kept, len(checkpoints))
    measured = UnitResult(dict(zip(metrics, totals, strict=True)), dict(zip(metrics, values, strict=True)))
    return StoredUnit(cell, start, stop, measured, checkpoints, name)
