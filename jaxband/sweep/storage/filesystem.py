"""Every file operation of a sweep, one method each, so that a test can let any of them fail or be the last.

Names and contents are decided elsewhere (`results_directory`). What is written is either whole or absent, also after a
crash: temporary name → write → fsync → rename → fsync of the directory.
"""

import contextlib
import os
from pathlib import Path

TEMPORARY = ".tmp-"  # how names of unfinished files begin


class FileSystem:
    """The real one."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def names(self, path: Path) -> list[str]:
        """The files in a directory, sorted; none if it does not exist."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def read(self, path: Path) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def write(self, handle: int, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def close(self, handle: int) -> None:
        os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def sync_directory(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def append(self, path: Path, content: bytes) -> None:
        with open(path, "ab") as file:  # buffered: all is written when it is closed, or an error raised
            file.write(content)

    def lock(self, path: Path) -> int | None:
        """A handle that holds the lock until it is closed or its process ends; None if another has it."""
        try:
            import fcntl
        except ImportError:
            raise OSError("sweeps need POSIX file locks, which this system lacks; on Windows use WSL") from None
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError as error:
            os.close(handle)
            raise OSError(error.errno, f"{error.strerror}; the file system must support flock", str(path)) from None
        return handle

    def sign(self, handle: int, content: bytes) -> None:
        """Write into a lock file who holds it."""
        os.ftruncate(handle, 0)
        os.pwrite(handle, content, 0)


def write_atomic(disk: FileSystem, path: Path, content: bytes) -> None:
    """`content` at `path`. An error leaves what was there; a crash may leave a temporary file besides."""
    temporary = path.with_name(TEMPORARY + path.name)
    handle = disk.create(temporary)
    try:
        try:
            disk.write(handle, content)
            disk.sync(handle)
        finally:
            disk.close(handle)
        disk.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(temporary)
        raise
    disk.sync_directory(path.parent)
