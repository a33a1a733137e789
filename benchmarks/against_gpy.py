"""How much faster than the published way: 1RGP-UCB on the logistic setting, ours against GPy refitted after every play.

    python benchmarks/against_gpy.py [--gpy-replications 2] [--json FILE]

GPy is installed into its own virtual environment (.venv-gpy), as its versions need not fit ours. Both sides run the
`published` protocol with T = 1000 on the cores of this machine: ours uses all of them, GPy's loop one per
replication.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jaxband as jb
from jaxband.experiments import paper
from jaxband.experiments.protocols import published

HERE = Path(__file__).parent
REPLICATIONS = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpy-replications", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    cell = cell_seconds()
    table = table1_seconds()
    gpy = run_gpy(arguments.gpy_replications)
    cores = len(os.sched_getaffinity(0))
    figures = {
        "cores": cores,
        "cell_run_seconds": cell["run"],
        "cell_compile_seconds": cell["compile"],
        "table1_seconds": table,
        "gpy_seconds_per_replication": gpy["seconds_per_replication"],
        "ratio": gpy["seconds_per_replication"] * REPLICATIONS / cores / cell["run"],
        "mean_total_reward": {"jaxband": cell["mean"], "gpy": sum(gpy["total_reward"]) / len(gpy["total_reward"])},
        "versions": {"gpy": gpy["gpy"], "numpy": gpy["numpy"]},
    }
    rows = [
        (f"one 1RGP-UCB cell, {REPLICATIONS} replications, without compilation", f"{cell['run']:.2f} s"),
        ("its compilation", f"{cell['compile']:.2f} s"),
        ("`jaxband reproduce table1 --protocol published`, fresh process, compilation included", f"{table:.1f} s"),
        ("GPy, one replication on one core", f"{figures['gpy_seconds_per_replication']:.2f} s"),
        (f"ratio for {REPLICATIONS} replications on {cores} cores", f"{figures['ratio']:,.0f} ×"),
        ("mean total reward, ours / GPy", "{jaxband:.1f} / {gpy:.1f}".format(**figures["mean_total_reward"])),
    ]
    for what, value in rows:
        print(f"{what:<88}{value:>14}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


def cell_seconds() -> dict[str, float]:
    """Compile once, then the best of five runs."""
    kernel = jb.kernels.SquaredExponential(lengthscale=5.0)
    options = published(paper.NUM_ARMS)["rgp_ucb"]
    policy = jb.policies.rgp_ucb(kernel, paper.NUM_ARMS, paper.Z_MAX, paper.NOISE, **options)
    problem = jb.Problem(paper.curves("logistic"), noise=paper.NOISE)
    results = [
        jb.monte_carlo(policy, problem, horizon=paper.HORIZON, replications=REPLICATIONS, seed=seed)
        for seed in range(6)
    ]
    run = min(result.wall_seconds for result in results[1:])
    return {"run": run, "compile": results[0].compile_seconds, "mean": float(results[0].total_reward.mean())}


def table1_seconds() -> float:
    command = [sys.executable, "-m", "jaxband.cli", "reproduce", "table1", "--protocol", "published", "--json"]
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        environment = os.environ | {"JAXBAND_CACHE": "off"}
        subprocess.run([*command, "--out", out], check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - began


def run_gpy(replications: int) -> dict:
    environment = HERE.parent / ".venv-gpy"
    python = environment / "bin" / "python"
    if not (environment / "installed").exists():
        print("Installing GPy into .venv-gpy", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements-gpy.txt"], check=True)
        (environment / "installed").touch()
    curves = json.dumps({"curves": paper.curves("logistic").tolist()})
    command = [python, HERE / "gpy_loop.py", "--replications", str(replications)]
    return json.loads(subprocess.run(command, input=curves, text=True, check=True, stdout=subprocess.PIPE).stdout)


if __name__ == "__main__":
    main()
