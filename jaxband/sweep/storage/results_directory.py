"""A results directory. One process writes at a time; whatever it is stopped by, the next one carries on.

DIR/spec.json      what is to be there (`manifest`)
DIR/units/         one immutable file per unit, named by its content (`units`)
DIR/rejected/      files that were damaged, foreign or double
DIR/log.jsonl      what happened when, one JSON document per line
DIR/lock           held while a sweep runs; says by whom
"""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from jaxband.sweep.spec.spec import SpecError
from jaxband.sweep.storage import manifest, trajectories, units
from jaxband.sweep.storage.filesystem import TEMPORARY, FileSystem, write_atomic
from jaxband.sweep.storage.manifest import Manifest
from jaxband.sweep.storage.units import CorruptUnitError, StoredUnit, Unit, UnitResult

KNOWN_NAMES = {"spec.json", "units", "rejected", "log.jsonl", "lock", "plots", "report.html"}
NOTHING = UnitResult({}, {})


class DirectoryBusyError(RuntimeError):
    """Another sweep is writing to the directory."""


class DirectoryContents(NamedTuple):
    """What a directory holds."""

    pieces: dict[str, list[StoredUnit]]  # by cell, in order of replications, without overlaps
    rejected: list[tuple[str, str]]  # (name, reason) of files that must not be used


class Store:
    """An open results directory; made by `opened`."""

    def __init__(self, directory: Path, wanted: Manifest, disk: FileSystem) -> None:
        self.directory, self.wanted, self._disk = directory, wanted, disk
        self.rejected: list[tuple[str, str]] = []  # what was set aside
        self._other_code: dict[str, str] = {}  # why results of these cells must not be used

    def missing(self, size: int | None = None) -> list[Unit]:
        """What is left to run. Files that must not be used are set aside."""
        found = scan(self.directory, self.wanted, self._disk, False, self._other_code)
        for name, reason in found.rejected:
            self._set_aside(self.directory / "units" / name, reason)
        return [
            unit
            for cell in self.wanted.cells
            for unit in units.missing(
                cell, [(p.start, p.stop) for p in found.pieces[cell.identity]], self.wanted.replications, size
            )
        ]

    def save(self, unit: Unit, measured: UnitResult) -> None:
        """Keep the results of a unit. They are on the disk when this returns."""
        name, content = units.pack(unit, measured)
        write_atomic(self._disk, self.directory / "units" / name, content)

    def log(self, event: str, **facts) -> None:
        """A line in the log."""
        line = json.dumps({"time": round(time.time(), 3), "event": event} | facts)
        self._disk.append(self.directory / "log.jsonl", f"{line}\n".encode())

    def _prepare(self) -> None:
        """Make the directory what it should be before anything is run."""
        self._disk.make_directory(self.directory / "units")
        self._disk.sync_directory(self.directory)
        for folder in (self.directory, self.directory / "units"):
            for name in self._disk.names(folder):
                if name.startswith(TEMPORARY):
                    self._disk.remove(folder / name)
        log = self.directory / "log.jsonl"
        if not (self._disk.read(log) or b"\n").endswith(b"\n"):
            self._disk.append(log, b"\n")  # a crash cut the last line short
        path = self.directory / "spec.json"
        content, wanted = self._disk.read(path), self.wanted.to_bytes()
        if content is not None and content != wanted:
            try:
                old = manifest.from_bytes(content)
            except manifest.SchemaError:
                raise
            except ValueError as error:
                self._set_aside(path, str(error))
            else:
                manifest.check_extends(self.wanted, old)
                self._other_code = manifest.of_other_code(self.wanted, old)
        if content != wanted:
            write_atomic(self._disk, path, wanted)

    def _set_aside(self, path: Path, reason: str) -> None:
        folder = self.directory / "rejected"
        self._disk.make_directory(folder)
        taken = set(self._disk.names(folder))
        name = next(n for i in range(len(taken) + 1) if (n := f"{path.name}.{i}" if i else path.name) not in taken)
        self._disk.rename(path, folder / name)
        self._disk.sync_directory(folder)
        self._disk.sync_directory(path.parent)
        self.rejected.append((path.name, reason))
        self.log("rejected", name=path.name, reason=reason)


@contextlib.contextmanager
def opened(directory: Path, wanted: Manifest, disk: FileSystem) -> Iterator[Store]:
    """The directory, made or resumed, and locked. Raises DirectoryBusyError, or SpecError if it is not ours."""
    directory = Path(directory)
    names = disk.names(directory)
    unexpected = [name for name in names if name not in KNOWN_NAMES and not name.startswith(TEMPORARY)]
    if unexpected and "spec.json" not in names:
        raise SpecError(
            f"{directory} is not a sweep directory (it contains {unexpected[0]!r}); choose a new or empty one"
        )
    disk.make_directory(directory)
    handle = disk.lock(directory / "lock")
    if handle is None:
        holder = (disk.read(directory / "lock") or b"").decode(errors="replace").strip() or "another process"
        raise DirectoryBusyError(
            f"{directory} is being written by {holder}; wait for it, or stop it, and run this again"
        )
    try:
        disk.sign(handle, f"process {os.getpid()} on {socket.gethostname()} since {time.ctime()}\n".encode())
        store = Store(directory, wanted, disk)
        store._prepare()
        yield store
    finally:
        disk.close(handle)


def read_manifest(directory: Path, disk: FileSystem) -> Manifest:
    """The spec of a directory. Raises ValueError if there is none or it is damaged."""
    content = disk.read(Path(directory) / "spec.json")
    if content is None:
        raise SpecError(f"{directory} holds no sweep: it has no spec.json")
    return manifest.from_bytes(content)


def scan(
    directory: Path,
    wanted: Manifest,
    disk: FileSystem,
    with_results: bool = True,
    other_code: Mapping[str, str] | None = None,
) -> DirectoryContents:
    """Read and check every result file. Changes nothing. `other_code`: what to say of cells of edited code."""
    pieces, rejected = {cell.identity: [] for cell in wanted.cells}, []
    metrics = list(wanted.metrics)
    expected = {cell.identity: trajectories.checkpoints(cell).tolist() for cell in wanted.cells}
    folder = Path(directory) / "units"
    for name in disk.names(folder):
        if name.startswith(TEMPORARY):
            continue  # being written
        try:
            if (content := disk.read(folder / name)) is None:
                continue  # set aside just now
            piece = units.unpack(name, content)
            matches_manifest = (piece.checkpoints, list(piece.measured.totals)) == (expected.get(piece.cell), metrics)
            if not matches_manifest or piece.stop > wanted.replications:
                reason = (other_code or {}).get(piece.cell, "belongs to another sweep")
                raise CorruptUnitError(f"{name}: {reason}")
            pieces[piece.cell].append(piece if with_results else piece._replace(measured=NOTHING))
        except CorruptUnitError as error:
            rejected.append((name, str(error)))
        except IsADirectoryError:
            rejected.append((name, f"{name}: is a directory"))
    for cell, found in pieces.items():
        pieces[cell] = _without_overlaps(found, rejected)
    return DirectoryContents(pieces, rejected)


def _without_overlaps(found: list[StoredUnit], rejected: list[tuple[str, str]]) -> list[StoredUnit]:
    """Pieces in order; of two that hold the same replication, the one that begins first or else is longer."""
    kept = []
    for piece in sorted(found, key=lambda p: (p.start, -p.stop)):
        if kept and piece.start < kept[-1].stop:
            rejected.append((piece.name, f"{piece.name}: holds replications that {kept[-1].name} holds too"))
        else:
            kept.append(piece)
    return kept
