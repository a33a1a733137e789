"""How far ahead is it worth looking, if the curves are known?

    python benchmarks/lookahead.py [--problems 50] [--replications 128] [--json FILE] [--plot FILE]

Small problems (K = 3, z_max = 4, rewards nowhere negative), where the optimum and its period are known: the share of it
that plans of d plays earn over T = 1,000 rounds, beside what Proposition 1 is sure of. Large ones (K = 10, z_max = 30,
squared exponential with l = 4): the share of the dual bound, for plans played to the end, made anew after every play,
and made anew with terminal values.
"""

import argparse
from pathlib import Path

import jax
import numpy as np
import tables

import jaxband as jb
from jaxband import plots

HORIZON = 1000
SMALL_DEPTHS, LARGE_DEPTHS = tuple(range(1, 13)), tuple(range(1, 9))
WAYS = {  # how plans are used -> options of the oracle
    "played to the end": {},
    "made anew": {"replan_every": 1},
    "made anew, terminal values": {"replan_every": 1, "terminal_values": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=50)
    parser.add_argument("--replications", type=int, default=128)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    small, periods = small_problems(arguments.problems)
    large = large_problems(arguments.replications)
    print(f"{arguments.problems} small problems, periods {min(periods)} to {max(periods)}: share of the optimum")
    tables.show(small)
    print("K = 10: share of the dual bound")
    tables.show(large)
    if arguments.json:
        tables.write([{"small": small, "periods": periods, "large": large}], arguments.json, horizon=HORIZON)
    if arguments.plot:
        arguments.plot.write_bytes(picture(small, large))


def small_problems(number: int) -> tuple[list[dict], list[int]]:
    """One row per depth: mean and least share, and mean of what is sure, over the problems; the optimal periods."""
    num_arms, z_max, kernel = 3, 4, jb.kernels.SquaredExponential(2.0)
    draws = [jb.recovery.gp(jax.random.key(seed), kernel, num_arms, z_max) for seed in range(number)]
    curves = [np.logaddexp(0.0, np.asarray(draw)) for draw in draws]
    best = [jb.optimum.exact(table) for table in curves]
    rows = []
    for depth in SMALL_DEPTHS:
        policy = jb.policies.oracle(num_arms, z_max, planner=jb.planners.subset(depth))
        shares = [earned(policy, table) / (HORIZON * b.average) for table, b in zip(curves, best, strict=True)]
        sure = [jb.theory.guaranteed_fraction(b.period, z_max, depth, HORIZON) for b in best]
        if any(share < least for share, least in zip(shares, sure, strict=True)):
            raise SystemExit(f"d = {depth}: less than Proposition 1 says")
        rows.append({"d": depth, "mean": np.mean(shares), "least": np.min(shares), "Proposition 1": np.mean(sure)})
    return rows, [b.period for b in best]


def earned(policy, curves: np.ndarray) -> float:
    problem = jb.Problem(curves, noise=0.0)
    return jb.monte_carlo(policy, problem, horizon=HORIZON, replications=2, lookahead=1).expected_reward[0]


def large_problems(replications: int) -> list[dict]:
    num_arms, z_max, kernel = 10, 30, jb.kernels.SquaredExponential(4.0)
    problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, num_arms, z_max), noise=0.0)
    rows = []
    for depth in LARGE_DEPTHS:
        row = {"d": depth}
        for way, options in WAYS.items():
            policy = jb.policies.oracle(num_arms, z_max, planner=jb.planners.subset(depth), **options)
            result = jb.monte_carlo(
                policy, problem, horizon=HORIZON, replications=replications, lookahead=1, upper_bound=True
            )
            row[way] = result.expected_reward.sum() / result.upper_bound.sum()
        rows.append(row)
    return rows


def picture(small: list[dict], large: list[dict]) -> bytes:
    figure, (left, right) = plots.pyplot().subplots(1, 2, figsize=(10.0, 3.8), layout="constrained")
    panels = (
        (left, small, ("mean", "least", "Proposition 1"), "K = 3: share of the optimum"),
        (right, large, tuple(WAYS), "K = 10: share of the dual bound"),
    )
    for axis, rows, names, title in panels:
        for colour, name in zip(plots.COLOURS, names, strict=False):
            axis.plot([row["d"] for row in rows], [row[name] for row in rows], color=colour, marker="o", label=name)
        axis.set(title=title, xlabel="lookahead d", ylabel="share")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    return plots.png(figure)


if __name__ == "__main__":
    main()
