"""Run by test_sweep_kills.py in a process of its own: sweeps that are killed at random moments until enough are.

    python tests/sweep_kills.py SPEC.toml DIR KILLS SEED

Imports the library once and starts no thread of JAX; every sweep is a fork that does. Prints how often a sweep was
killed, how many of these kills left some files but not all and how many an unfinished one, and how many sweeps were
finished in spite of it.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

from jaxband import cli
from jaxband.sweep.storage.filesystem import TEMPORARY, FileSystem

warnings.simplefilter("ignore", DeprecationWarning)


def main(spec: str, directory: Path, kills: int, seed: int) -> None:
    rng, killed, midway, torn, finished = random.Random(seed), 0, 0, 0, 0
    _sweep(spec, directory / "whole", None)  # fills the cache of compiled code
    began = time.perf_counter()
    _sweep(spec, directory / "again", None)
    longest = time.perf_counter() - began
    units = len(_files(directory / "whole"))
    while killed < kills:
        out = directory / f"killed-{finished}"
        while killed < kills:
            if not _sweep(spec, out, rng.uniform(0.0, 1.1 * longest)):
                break
            killed += 1
            left = _files(out)
            midway += 0 < len(left) < units
            torn += any(name.startswith(TEMPORARY) for name in left)
        _sweep(spec, out, None)
        finished += 1
    print(json.dumps({"killed": killed, "midway": midway, "torn": torn, "finished": finished, "seconds": longest}))


def _files(directory: Path) -> list[str]:
    return FileSystem().names(directory / "units")


def _sweep(spec: str, out: Path, seconds: float | None) -> bool:
    """Run a sweep and kill it after so many seconds; whether that came before its end."""
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os._exit(cli.main(["sweep", spec, "--out", str(out)]))
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"a sweep ended with {os.WEXITSTATUS(status)}")
    return os.WIFSIGNALED(status)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
