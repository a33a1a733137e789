"""Compile once: XLA's results are kept in the user's cache directory and found again by the next process.

The directory is particular to jaxlib's version and to the processor, because compiled code is. A user who configured
JAX's own compilation cache keeps that; JAXBAND_CACHE=off turns ours off, JAXBAND_CACHE=/some/directory moves it. It
is kept below `LARGEST` bytes; what was not used for longest goes first.
"""

import contextlib
import hashlib
import os
import platform
import sys
from pathlib import Path

import jax
import jaxlib

LARGEST = 2**30  # bytes; hundreds of simulations


def enable() -> None:
    """Turn the cache on for this process, unless the user has decided otherwise. Starts no backend."""
    wish = os.environ.get("JAXBAND_CACHE", "")
    if jax.config.jax_compilation_cache_dir is not None or wish.lower() in ("off", "0", "false", "no"):
        return
    base = Path(wish) if wish else user_directory()
    if base is not None:
        directory = base / f"jaxlib-{jaxlib.__version__}-{_processor()}"
        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # hundreds of small programs cost seconds
        prune(directory)


def prune(directory: Path, largest: int = LARGEST) -> None:
    """If a cache has grown beyond `largest` bytes, remove the files that were not read for longest, down to half of it.

    JAX's own limit needs a lock for every look-up; a program that is missing is only compiled again.
    """
    try:
        files = [(entry.stat(), entry.path) for entry in os.scandir(directory) if entry.is_file()]
    except OSError:
        return
    size = sum(stat.st_size for stat, _ in files)
    if size <= largest:
        return
    for stat, path in sorted(files, key=lambda file: max(file[0].st_atime, file[0].st_mtime)):
        if size <= largest // 2:
            return
        with contextlib.suppress(OSError):
            os.remove(path)
            size -= stat.st_size


def user_directory() -> Path | None:
    """Where this platform keeps a user's caches; None if the user has no home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "jaxband"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "jaxband" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "jaxband"


def _processor() -> str:
    """A short name for what this processor can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    except OSError:
        features = [platform.machine(), platform.processor()]
    return hashlib.sha256("\n".join(features).encode()).hexdigest()[:12]
