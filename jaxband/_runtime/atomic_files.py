"""Files that are either whole or absent: written under a temporary name, synced, then renamed."""

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """`content` at `path`, replacing what was there in one step. An error leaves the old file and nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
