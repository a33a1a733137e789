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
from jaxband.sweep.engines import compile_groups, execute
from jaxband.sweep.storage import units

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
    PAPER | {"policy": "rgp_ts", "depth": 3, "lookahead": 3},
    PAPER | {"policy": "rgp_ts", "depth": 3, "replan_every": 1},
    PAPER | {"policy": "rgp_ts", "depth": 3, "planner": "subset"},
    PAPER | {"policy": "rgp_ts", "depth": 4, "planner": "subset", "replan_every": 1},
    PAPER | {"policy": "rgp_ucb", "depth": 3, "planner": "subset"},
    PAPER | {"policy": "rgp_ts", "num_arms": 30},
    PAPER | {"policy": "rgp_ts", "num_arms": 30, "depth": 3, "planner": "subset"},
    PAPER | {"policy": "oracle"},
    PAPER | {"policy": "oracle", "depth": 3},
    PAPER | {"policy": "oracle", "depth": 4, "planner": "optimistic", "budget": 200},
    PAPER | {"policy": "rgp_ts", "depth": 4, "planner": "optimistic", "budget": 50},
    PAPER | {"policy": "rgp_pointwise"},
    PAPER | {"policy": "rgp_pointwise", "num_arms": 30},
    PAPER | {"policy": "recommended"},
    PAPER | {"policy": "recommended", "num_arms": 30},
    PAPER | {"policy": "oracle", "planner": "beam", "depth": 14, "replan_every": 1},
    PAPER | {"policy": "rgp_ts", "refit_every": 10},
    PAPER | {"policy": "rgp_ts", "refit_every": 50, "num_arms": 30, "z_max": 15},
    PAPER | {"policy": "rogue_ucb_tuned", "family": "logistic"},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--horizon", type=int, default=500)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    tables.show([measure(settings, arguments.horizon) for settings in CELLS], arguments.json)


def measure(settings: dict, horizon: int) -> dict:
    options = {"replications": 64, "horizon": horizon, "problems": {"p": {"family": "gp"}}}
    grid = {name: value for name, value in settings.items() if name != "lookahead"}
    (cell,) = sweep.Spec("costs", **options, lookahead=settings.get("lookahead"), grid=grid).cells()
    unit = units.Unit(cell, 0, 64)
    began = time.process_time()
    list(execute.results([unit], jax.devices()[:1]))
    compiled = time.process_time() - began
    began = time.process_time()
    list(execute.results([unit], jax.devices()[:1]))
    measured = (time.process_time() - began) / (64 * horizon) / compile_groups.MICROSECONDS
    expected = compile_groups.cost(cell)
    name = " ".join(f"{key}={value}" for key, value in settings.items() if PAPER.get(key) != value)
    return {"cell": name, "table, µs": expected.round, "measured, µs": measured, "ratio": measured / expected.round} | {
        "compiling, s": compiled,
        "table, s": expected.compile,
    }


if __name__ == "__main__":
    main()
