"""Units of work, a stretch of one cell's replications each, and the files that hold their results.

A file is three lines of text and then numbers:

    jaxband unit 1                       the schema
    3f0a…                                SHA-256 of all that follows; also the name of the file
    {"cell": "…", "identity": "…", …}    whose results these are, and the arrays in order
    raw little-endian float64

Nothing in it depends on when, where or beside what a unit was run, so that the same unit is always the same bytes.
"""

import hashlib
import json
from typing import NamedTuple

import numpy as np

from jaxband.sweep.cells import SCHEMA, Cell, canonical_json, digest

MAGIC = f"jaxband unit {SCHEMA}\n".encode()
SUFFIX = ".unit"
ROUNDS_PER_UNIT = 2**20  # about a second: what a crash can cost, and how often a file is written
UNITS_PER_CELL = 8  # at least, if it has enough replications
SMALLEST_UNIT = 64  # replications; what runs side by side on a CPU
LARGEST_UNIT = 4096


class CorruptUnit(ValueError):
    """A result file that is damaged, or is not what its name and its sweep say."""


class Unit(NamedTuple):
    """Replications start … stop − 1 of a cell."""

    cell: Cell
    start: int
    stop: int

    @property
    def identity(self) -> str:
        return identity(self.cell.identity, self.start, self.stop)


class Piece(NamedTuple):
    """The results of a unit, read back."""

    cell: str  # identity of the cell
    start: int
    stop: int
    arrays: dict[str, np.ndarray]  # [stop − start] each, by metric
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


def pack(unit: Unit, arrays: dict[str, np.ndarray]) -> tuple[str, bytes]:
    """The name and the content of a unit's file."""
    header = {
        "schema": SCHEMA,
        "cell": unit.cell.identity,
        "start": unit.start,
        "stop": unit.stop,
        "identity": unit.identity,
        "arrays": list(unit.cell.metrics),
    }
    numbers = [np.ascontiguousarray(arrays[name], "<f8") for name in unit.cell.metrics]
    for name, array in zip(unit.cell.metrics, numbers, strict=True):
        if array.shape != (unit.stop - unit.start,):
            raise ValueError(f"{name} must have shape [{unit.stop - unit.start}], got {list(array.shape)}")
    body = canonical_json(header).encode() + b"\n" + b"".join(array.tobytes() for array in numbers)
    sha256 = hashlib.sha256(body).hexdigest()
    return sha256 + SUFFIX, MAGIC + sha256.encode() + b"\n" + body


def unpack(name: str, content: bytes) -> Piece:
    """The results in a file of that name. Raises CorruptUnit unless every byte is as it was written."""
    try:
        return _unpack(name, content)
    except CorruptUnit as error:
        raise CorruptUnit(f"{name}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptUnit(f"{name}: not a unit of this library ({type(error).__name__}: {error})") from None


def _unpack(name: str, content: bytes) -> Piece:
    if not content.startswith(MAGIC):
        raise CorruptUnit("is no result file, or one of another version")
    sha256, body = content[len(MAGIC) :][:64], content[len(MAGIC) + 65 :]
    if hashlib.sha256(body).hexdigest().encode() != sha256 or content[len(MAGIC) + 64 :][:1] != b"\n":
        raise CorruptUnit("is damaged: its SHA-256 is not the one it was written with")
    if name != sha256.decode() + SUFFIX:
        raise CorruptUnit("holds the results of another file")
    line, _, numbers = body.partition(b"\n")
    header = json.loads(line)
    cell, start, stop, names = header["cell"], header["start"], header["stop"], header["arrays"]
    if header["schema"] != SCHEMA or header["identity"] != identity(cell, start, stop):
        raise CorruptUnit("does not know what it is: its identity does not follow from its contents")
    if not 0 <= start < stop or len(numbers) != 8 * len(names) * (stop - start):
        raise CorruptUnit("has the wrong size")
    values = np.frombuffer(numbers, "<f8").reshape(len(names), stop - start)
    return Piece(cell, start, stop, dict(zip(names, values, strict=True)), name)
