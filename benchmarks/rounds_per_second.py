"""What does a round cost? Microseconds per round and core of every policy, over K and d.

    python benchmarks/rounds_per_second.py [--batches | --arms] [--quick] [--json FILE]

A whole simulation with its statistics (`monte_carlo`) on all devices, T = 1000, best of several runs, compilation
excluded. Curves are drawn from a squared exponential with l = 5, z_max = 30. With --batches the batch size is varied
instead, for the one-step policies: that is where the defaults in jaxband/layout.py come from. With --arms they run for
all K in turn, many times over, and the medians are compared: runs minutes apart are not comparable on a shared machine.
"""

import argparse
import functools
import statistics
import sys
from pathlib import Path

import jax
import tables

import jaxband as jb

Z_MAX, NOISE, HORIZON = 30, 0.1, 1000
KERNEL = jb.kernels.SquaredExponential(5.0)
ARMS = (3, 10, 30, 100)
BATCH_SIZES = (8, 16, 32, 64, 128)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--batches", action="store_true", help="vary the batch size")
    instead.add_argument("--arms", action="store_true", help="how the cost of the one-step policies grows with K")
    parser.add_argument("--quick", action="store_true", help="K = 10 only")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arms = (10,) if arguments.quick else ARMS
    if arguments.arms:
        rows = [
            {"policy": name} | in_turn(policy, arms) for name, policy in policies(1).items() if name.startswith("1RGP")
        ]
    elif arguments.batches:
        rows = [
            {"policy": name, "K": num_arms}
            | {f"batch {size}": cost(policy(num_arms), num_arms, batch_size=size) for size in BATCH_SIZES}
            for name, policy in policies(1).items()
            if name.startswith("1RGP")
            for num_arms in arms
        ]
    else:
        rows = []
        for name, policy in policies(HORIZON).items():
            rows.append({"policy": name} | {f"K={k}": cost_if_small(name, policy, k) for k in arms})
            print(rows[-1], file=sys.stderr)
        leaf = 1000 * 4 * next(row for row in rows if row["policy"] == "4RGP-UCB, exhaustive")["K=10"] / 10**4
        plan = 4 * next(row for row in rows if row["policy"] == "4RGP-TS, subset")["K=10"]
        print(
            f"K=10: 4RGP-UCB takes {leaf:.2f} ns per leaf, all else included; 4RGP-TS {plan:.1f} µs per plan of four\n"
        )
    print("µs per round and core, statistics included")
    tables.show(rows, arguments.json)


def policies(horizon: int) -> dict:
    """Every policy of the library, by the number of arms."""
    shape = {"z_max": Z_MAX, "noise": NOISE}
    planned = {
        f"{depth}RGP-{kind}, {planner.__name__}": (make, planner, depth)
        for kind, make in (("UCB", jb.policies.rgp_ucb), ("TS", jb.policies.rgp_ts))
        for planner in (jb.planners.exhaustive, jb.planners.subset)
        for depth in (2, 3, 4)
    }
    return {
        "1RGP-UCB": lambda k: jb.policies.rgp_ucb(KERNEL, k, **shape),
        "1RGP-TS": lambda k: jb.policies.rgp_ts(KERNEL, k, **shape),
        **{
            name: lambda k, make=make, planner=planner, depth=depth: make(KERNEL, k, **shape, planner=planner(depth))
            for name, (make, planner, depth) in planned.items()
        },
        "UCB-Z": lambda k: jb.policies.ucb_z(k, **shape, horizon=horizon),
        "oracle": lambda k: jb.policies.oracle(k, Z_MAX),
        "random": jb.policies.random,
        "round robin": jb.policies.round_robin,
    }


def cost_if_small(name: str, policy, num_arms: int) -> float | None:
    """None where a plan has more than 10^5 leaves or, with the subset planner, 10^3 steps."""
    depth = int(name[0]) if name[0].isdigit() else 1
    too_large = num_arms**depth > 10**5 if "exhaustive" in name else num_arms * 3**depth > 1000
    return None if depth > 1 and too_large else cost(policy(num_arms), num_arms)


def in_turn(policy, arms: tuple[int, ...], repeats: int = 15) -> dict:
    """The median over K run one after the other, and how many times that of K = 10 it is, and the best likewise."""
    built = {num_arms: policy(num_arms) for num_arms in arms}
    rounds = [{k: cost(built[k], k, repeats=2) for k in arms} for _ in range(repeats)]
    medians = {k: statistics.median(costs[k] for costs in rounds) for k in arms}
    best = {k: min(costs[k] for costs in rounds) for k in arms}
    times = {f"K={k} / K=10": medians[k] / medians[10] for k in arms if k > 10}
    times |= {f"best K={k} / K=10": best[k] / best[10] for k in arms if k > 10}
    return {f"K={k}": x for k, x in medians.items()} | times


def cost(policy, num_arms: int, repeats: int = 6, **options) -> float:
    """Microseconds per round and core."""
    heavy = num_arms > 30
    replications, horizon = (128, 100) if policy.depth > 1 else (512 if heavy else 2048, HORIZON)
    results = [
        jb.monte_carlo(
            policy, problem(num_arms), horizon=horizon, replications=replications, seed=seed, lookahead=1, **options
        )
        for seed in range(repeats)
    ]
    seconds = min(result.wall_seconds - result.compile_seconds for result in results[1:])
    return 1e6 * seconds * jax.local_device_count() / (replications * horizon)


@functools.cache  # the same function in every run: another one would compile again
def problem(num_arms: int) -> jb.Problem:
    return jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, num_arms, Z_MAX), noise=NOISE)


if __name__ == "__main__":
    main()
