"""How long until the first round? Importing, and compiling each policy, with an empty and a filled cache.

    python benchmarks/compile_time.py [--json FILE]

Every figure is the best of three fresh processes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tables

POLICIES = {
    "1RGP-UCB": "jb.policies.rgp_ucb(*shape)",
    "1RGP-TS": "jb.policies.rgp_ts(*shape)",
    "3RGP-UCB, exhaustive": "jb.policies.rgp_ucb(*shape, planner=jb.planners.exhaustive(3))",
    "3RGP-TS, exhaustive": "jb.policies.rgp_ts(*shape, planner=jb.planners.exhaustive(3))",
    "4RGP-TS, subset": "jb.policies.rgp_ts(*shape, planner=jb.planners.subset(4))",
    "4RGP-UCB, subset": "jb.policies.rgp_ucb(*shape, planner=jb.planners.subset(4))",
    "UCB-Z": "jb.policies.ucb_z(10, 30, 0.1, horizon=1000)",
}
RUN = """
import jaxband as jb
kernel = jb.kernels.SquaredExponential(5.0)
shape = kernel, 10, 30, 0.1
problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, 10, 30), noise=0.1)
print(jb.monte_carlo({policy}, problem, horizon=1000, replications=64, lookahead=1).compile_seconds)
"""
IMPORT = "import time; began = time.perf_counter(); import {module}; print(time.perf_counter() - began)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    jax, ours = (min(python(IMPORT.format(module=m), "off") for _ in range(5)) for m in ("jax", "jaxband"))
    print(f"import jax {jax:.2f} s, import jaxband {ours:.2f} s: {ours / jax:.2f} x")
    rows = [{"policy": name} | compile_seconds(code) for name, code in POLICIES.items()]
    tables.show(rows, arguments.json, import_seconds={"jax": jax, "jaxband": ours})


def compile_seconds(policy: str) -> dict:
    with tempfile.TemporaryDirectory() as cache:
        code = RUN.format(policy=policy)
        empty = min(python(code, "off") for _ in range(3))
        python(code, cache)
        return {"empty cache, s": empty, "filled cache, s": min(python(code, cache) for _ in range(3))}


def python(code: str, cache: str) -> float:
    """The number that `code` prints in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"JAXBAND_CACHE": cache}, stdout=subprocess.PIPE, check=True
    )
    return float(run.stdout)


if __name__ == "__main__":
    main()
