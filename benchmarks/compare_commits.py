"""Two commits in turn in one run: rounds per second and compile time of a few policies, as ratios.

    python benchmarks/compare_commits.py A B [--repeats 15] [--out FILE.json]

Each commit is checked out into a directory of its own and runs in a process of its own; runs alternate, so that both
meet the same noise of the machine. A ratio is B / A of the best times: below 1 B is faster.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKER = """
import json, sys, time
import jax
import jaxband as jb

kernel = jb.kernels.SquaredExponential(4.0)
problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, 10, 30), noise=0.1)
shape = dict(num_arms=10, z_max=30, noise=0.1)
MAKE = {
    "1RGP-UCB": lambda: jb.policies.rgp_ucb(kernel, **shape),
    "1RGP-TS": lambda: jb.policies.rgp_ts(kernel, **shape),
    "3RGP-TS subset": lambda: jb.policies.rgp_ts(kernel, **shape, planner=jb.planners.subset(3)),
    "recommended": lambda: jb.policies.recommended(kernel, **shape, horizon=1000),
}
policies = {name: make() for name, make in MAKE.items()}
for line in sys.stdin:
    name, replications, fresh = json.loads(line)
    if fresh:
        jax.clear_caches()
    device = jax.local_devices()[:1]
    began = time.process_time()
    result = jb.monte_carlo(
        policies[name], problem, horizon=1000, replications=replications, lookahead=1, devices=device
    )
    seconds = time.process_time() - began
    print(json.dumps({"wall": result.wall_seconds, "cpu": seconds, "compile": result.compile_seconds}), flush=True)
"""
REPLICATIONS = {"1RGP-UCB": 1024, "1RGP-TS": 1024, "3RGP-TS subset": 512, "recommended": 64}


class Commit:
    """A worker on one commit."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(directory), name], cwd=ROOT, check=True)
        self._directory = directory
        environment = os.environ | {"PYTHONPATH": str(directory), "JAXBAND_CACHE": "off"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=directory,
        )  # fmt: skip

    def run(self, policy: str, replications: int, fresh: bool = False) -> dict[str, float]:
        self._process.stdin.write(json.dumps([policy, replications, fresh]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        subprocess.run(["git", "worktree", "remove", "--force", str(self._directory)], cwd=ROOT, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("--policies", nargs="*", default=list(REPLICATIONS), metavar="P")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--compilations", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        commits = [Commit(name, Path(folder) / str(i)) for i, name in enumerate(arguments.commits)]
        for policy in arguments.policies:
            count = REPLICATIONS[policy]
            compiled = [
                [commit.run(policy, 64, fresh=True)["compile"] for commit in commits]
                for _ in range(arguments.compilations)
            ]
            for commit in commits:
                commit.run(policy, count)
            times = []
            for _ in range(arguments.repeats):
                times.append([commit.run(policy, count)["wall"] for commit in commits])
                time.sleep(0.05)
            best = [min(column) for column in zip(*times, strict=True)]
            compile_best = [min(column) for column in zip(*compiled, strict=True)]
            medians = sorted(b / a for a, b in times)
            row = {
                "policy": policy,
                "us_per_round": [1e6 * x / (1000 * count) for x in best],
                "ratio": best[1] / best[0],
                "median_ratio": medians[len(medians) // 2],
                "compile_seconds": compile_best,
                "compile_ratio": compile_best[1] / compile_best[0],
            }
            rows.append(row)
            print(
                f"{policy:<16} {row['us_per_round'][0]:8.3f} {row['us_per_round'][1]:8.3f} us  "
                f"ratio {row['ratio']:.3f} "
                f"(median {row['median_ratio']:.3f})   compile {compile_best[0]:.2f} {compile_best[1]:.2f} s  "
                f"ratio {row['compile_ratio']:.3f}",
                flush=True,
            )
        for commit in commits:
            commit.close()
    if arguments.out:
        machine = {"processor": platform.processor() or platform.machine(), "python": platform.python_version()}
        document = {"commits": arguments.commits, "machine": machine, "rows": rows}
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
