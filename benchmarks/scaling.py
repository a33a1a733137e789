"""Does the cost stay flat? 1RGP-UCB over the horizon, the number of replications and of devices, with peak memory.

    python benchmarks/scaling.py [--large] [--json FILE]

Every row is a process of its own, which first makes a small run (the idle memory) and compiles. --large adds
1,000,000 replications of T = 1,000 and 1,000 of T = 1,000,000: some minutes each.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import jax
import tables

import jaxband as jb

NUM_ARMS, Z_MAX, NOISE = 10, 30, 0.1
KERNEL = jb.kernels.SquaredExponential(5.0)
RUNS = [  # horizon, replications, devices (None: all)
    (1_000, 2_048, 1),
    (1_000, 2_048, None),
    (1_000, 10_000, None),
    (1_000, 100_000, None),
    (20_000, 1_024, None),
    (100_000, 128, None),
]
LARGE = [(1_000, 1_000_000, None), (1_000_000, 1_000, None)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one)))
        return
    rows = []
    for run in RUNS + LARGE * arguments.large:
        command = [sys.executable, __file__, "--one", json.dumps(run)]
        rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        print(f"{rows[-1]}", file=sys.stderr)
    cost = {(row["T"], row["replications"], row["devices"]): row["µs per round and device"] for row in rows}
    devices = jax.local_device_count()
    short, alone, long = cost[1_000, 2_048, devices], cost[1_000, 2_048, 1], cost[20_000, 1_024, devices]
    print(f"{devices} devices are {devices * alone / short:.2f} x as fast as one")
    print(f"a round of T = 20,000 costs {long / short:.2f} x one of T = 1,000")
    tables.show(rows, arguments.json)


def measure(horizon: int, replications: int, num_devices: int | None) -> dict:
    """Best of three, or one run if it is long."""
    devices = jax.local_devices()[:num_devices]
    policy = jb.policies.rgp_ucb(KERNEL, NUM_ARMS, Z_MAX, NOISE)
    problem = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, NUM_ARMS, Z_MAX), noise=NOISE)

    def run(replications):
        return jb.monte_carlo(policy, problem, horizon=horizon, replications=replications, devices=devices)

    run(128 * len(devices) if horizon <= 100_000 else 2)
    idle = peak_mib()
    seconds = min(run(replications).wall_seconds for _ in range(3 if horizon * replications <= 3 * 10**7 else 1))
    return {
        "T": horizon,
        "replications": replications,
        "devices": len(devices),
        "seconds": seconds,
        "µs per round and device": 1e6 * seconds * len(devices) / (horizon * replications),
        "MiB when idle": idle,
        "MiB more at the peak": peak_mib() - idle,
    }


def peak_mib() -> float:
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    main()
