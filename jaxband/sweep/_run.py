"""Run a sweep, or what is left of it: open the directory, find out what is missing, let an engine compute it, save."""

import contextlib
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import jax

from jaxband._runtime import interrupts
from jaxband._runtime.progress import bar
from jaxband.sweep.engines import execute
from jaxband.sweep.engines.local import local_engine
from jaxband.sweep.spec.spec import Spec
from jaxband.sweep.storage import manifest, results_directory
from jaxband.sweep.storage.filesystem import FileSystem
from jaxband.sweep.storage.units import Unit, UnitResult

Engine = Callable[[list[Unit]], Iterable[tuple[Unit, UnitResult]]]


class Outcome(NamedTuple):
    """How far a sweep got."""

    units: int  # that were missing when it began
    done: int
    rejected: list[tuple[str, str]]  # (name, reason) of files that were set aside and computed again
    seconds: float

    @property
    def complete(self) -> bool:
        return self.done == self.units


def run(
    spec: Spec,
    out: Path | str,
    *,
    engine: Engine = local_engine,
    progress: bool | None = None,
    disk: FileSystem | None = None,
) -> Outcome:
    """Compute what is missing in the directory `out` and keep it there. Calling it again resumes.

    Raises SpecError if the directory holds another sweep, DirectoryBusyError if another process is writing to it.
    """
    spec.check_can_be_kept()
    wanted, began = manifest.make_manifest(spec), time.perf_counter()
    with results_directory.opened(Path(out), wanted, disk or FileSystem()) as open_store:
        left, done = open_store.missing(spec.replications_per_unit), 0
        versions = execute.versions() | {"python": platform.python_version()}
        open_store.log("start", name=spec.name, cells=len(wanted.cells), units=len(left), **versions)
        if left and engine is local_engine:
            open_store.log("devices", devices=[f"{d.device_kind} {d.id}" for d in jax.local_devices()])
        with _logged_end(open_store), interrupts.defer_interrupts(), bar("units", len(left), progress) as advance:
            for unit, measured in engine(left) if left else ():
                open_store.save(unit, measured)
                done += 1
                open_store.log("unit", cell=unit.cell.identity, start=unit.start, stop=unit.stop, done=done)
                advance(1)
        seconds = time.perf_counter() - began
        event = "done" if done == len(left) else "incomplete"
        open_store.log(event, units=len(left), done=done, seconds=round(seconds, 3))
        return Outcome(len(left), done, open_store.rejected, seconds)


@contextlib.contextmanager
def _logged_end(open_store: results_directory.Store):
    """Say in the log what ended a sweep early."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            open_store.log("stopped", reason=f"{type(error).__name__}: {error}".removesuffix(": "))
        raise
