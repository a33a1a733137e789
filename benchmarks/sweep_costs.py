"""How good is the estimate of `jaxband sweep --dry-run`? Cost per round by its table, and measured on one device.

    python benchmarks/sweep_costs.py [--horizon 500] [--json FILE]

Measured is the processor time of a second run of 64 replications, when everything is compiled; compiling is that of
the first, with JAXBAND_CACHE=off.
"""

import argparse
import time
from pathlib import Path

import jax
import tables

from jaxband import sweep
from jaxband.sweep import compute, estimate, units

PAPER = {"num_arms": 10, "z_max": 30, "lengthscale": 4.0}
CELLS = [
    PAPER | {"policy": "random"},
    PAPER | {"policy": "round_robin"},
    PAPER | {"policy": "ucb_z"},
    PAPER | {"policy": "rgp_ucb"},
    PAPER | {"policy": "rgp_ts"},
    PAPER | {"policy": "rgp_ucb", "num_arms": 30, "z_max": 60},
    PAPER | {"policy": "rgp_ucb", "depth": 3},
    PAPER | {"policy": "rgp_ts", "depth": 3},
    PAPER | {"policy": "rgp_ts", "depth": 3, "commit": 1, "lookahead": 1},
    PAPER | {"policy": "rgp_ts", "depth": 3, "planner": "subset"},
    PAPER | {"policy": "rgp_ts", "depth": 4, "planner": "subset", "commit": 1, "lookahead": 1},
    PAPER | {"policy": "rgp_ucb", "depth": 3, "planner": "subset", "lookahead": 1},
    PAPER | {"policy": "rgp_ts", "num_arms": 30},
    PAPER | {"policy": "rgp_ts", "num_arms": 30, "depth": 3, "planner": "subset"},
    PAPER | {"policy": "oracle"},
    PAPER | {"policy": "oracle", "depth": 3},
    PAPER | {"policy": "oracle", "depth": 4, "planner": "optimistic", "budget": 200, "lookahead": 1},
    PAPER | {"policy": "rgp_ts", "depth": 4, "planner": "optimistic", "budget": 50, "lookahead": 1},
    PAPER | {"policy": "rgp_pointwise", "lookahead": 1},
    PAPER | {"policy": "rgp_pointwise", "num_arms": 30, "lookahead": 1},
    PAPER | {"policy": "recommended"},
    PAPER | {"policy": "recommended", "num_arms": 30},
    PAPER | {"policy": "oracle", "planner": "beam", "depth": 14, "commit": 1, "lookahead": 1},
    PAPER | {"policy": "rgp_ts", "learn": 10},
    PAPER | {"policy": "rgp_ts", "learn": 50, "num_arms": 30, "z_max": 15},
    PAPER | {"policy": "rogue_ucb_tuned", "family": "logistic"},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--horizon", type=int, default=500)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    tables.show([measure(settings, arguments.horizon) for settings in CELLS], arguments.json)


def measure(settings: dict, horizon: int) -> dict:
    problems = {"p": {"family": "gp"}}
    (cell,) = sweep.Spec("costs", replications=64, horizon=horizon, problems=problems, grid=settings).cells()
    unit = units.Unit(cell, 0, 64)
    began = time.process_time()
    list(compute.results([unit], jax.devices()[:1]))
    compiled = time.process_time() - began
    began = time.process_time()
    list(compute.results([unit], jax.devices()[:1]))
    measured = (time.process_time() - began) / (64 * horizon) / estimate.MICROSECONDS
    expected = estimate.policy_cost(cell) + estimate.lookahead_cost(cell)
    name = " ".join(f"{key}={value}" for key, value in settings.items() if PAPER.get(key) != value)
    return {"cell": name, "table, µs": expected, "measured, µs": measured, "ratio": measured / expected} | {
        "compiling, s": compiled,
        "table, s": estimate.compile_seconds(cell),
    }


if __name__ == "__main__":
    main()
