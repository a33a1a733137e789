"""UnitResult regret beside the bounds of the paper, the maximal information gain, and where printed constants fail.

    python benchmarks/theory_bounds.py [--replications 256] [--plot FILE.png] [--json FILE.json]

K = 10 curves drawn from a squared exponential with l = 4, z_max = 30, σ = 0.1, T = 996 (whole blocks for d = 1, 2, 3).
dRGP-UCB and dRGP-TS as written, exact plans played to the end; regret is the lookahead regret of their own depth.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np

import jaxband as jb
from jaxband import plots, theory
from jaxband.simulation.summaries import summarize

KERNEL, NUM_ARMS, Z_MAX, NOISE, HORIZON = jb.kernels.SquaredExponential(4.0), 10, 30, 0.1, 996
PROBLEM = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, NUM_ARMS, Z_MAX), noise=NOISE)
SETTING = KERNEL, NUM_ARMS, Z_MAX, NOISE
POLICIES = {
    "RGP-UCB": (jb.policies.rgp_ucb, theory.regret_bound_ucb),
    "RGP-TS": (jb.policies.rgp_ts, theory.regret_bound_ts),
}
PLANS = [(1, True), (2, False), (3, False), (2, True), (3, True)]  # depth, may arms repeat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=256)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    rows = [measure(name, *plan, arguments.replications) for name in POLICIES for plan in PLANS]
    rows.append(measure_ucb_z(arguments.replications))
    found = {"information": information(), "regret": rows, "any_policy": any_policy(HORIZON), "constants": constants()}
    show(found)
    if arguments.plot:
        arguments.plot.write_bytes(draw(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


def regret_band(result):
    """The lookahead regret over time; for d = 1 it is the instantaneous one."""
    return result.bands["lookahead_regret" if result.lookahead > 1 else "instantaneous_regret"]


def measure(name: str, depth: int, repeats: bool, replications: int) -> dict:
    """One row of the table, with the curves of the plot."""
    policy, bound = POLICIES[name]
    planner = jb.planners.exhaustive(depth, repeats=repeats)
    policy = policy(*SETTING, planner=planner)
    options = {"horizon": HORIZON, "replications": replications}
    result = jb.monte_carlo(policy, PROBLEM, **options, lookahead=depth, repeats=repeats)
    bounds = [bound(*SETTING, t, depth, repeats=repeats) for t in result.checkpoints[some(result)].tolist()]
    printed = bound(*SETTING, HORIZON, depth, repeats=repeats, constants="printed")
    play = "multiple" if repeats else "single"
    return row(f"{depth}{name}", "-" if depth == 1 else play, result, bounds, printed)


def measure_ucb_z(replications: int) -> dict:
    policy = jb.policies.ucb_z(NUM_ARMS, Z_MAX, NOISE, horizon=HORIZON)
    result = jb.monte_carlo(policy, PROBLEM, horizon=HORIZON, replications=replications)
    printed = theory.regret_bound_ucb_z(*SETTING, HORIZON, constants="printed")
    bounds = [theory.regret_bound_ucb_z(*SETTING, t) for t in result.checkpoints[some(result)].tolist()]
    return row("UCB-Z", "-", result, bounds, printed)


def row(name: str, play: str, result: jb.Result, bounds: list[float], printed: float) -> dict:
    regret = summarize(result.lookahead_regret)
    return {
        "policy": name,
        "play": play,
        "regret": regret.mean,
        "standard_error": regret.standard_error,
        "corrected_bound": bounds[-1],
        "printed_bound": printed,
        "seconds": result.wall_seconds,
        "rounds": result.checkpoints[some(result)].tolist(),
        "regret_by_round": regret_band(result).mean[some(result)].round(2).tolist(),
        "bound_by_round": [round(b, 2) for b in bounds],
    }


def some(result: jb.Result) -> np.ndarray:
    """Checkpoints for the plot, evenly on the logarithmic axis; the last one is the horizon."""
    return np.unique(np.geomspace(1, len(result.checkpoints), 14).round().astype(int)) - 1


def any_policy(horizon: int) -> float:
    return theory.trivial_regret_bound(KERNEL, NUM_ARMS, Z_MAX, horizon)


def information() -> list[dict]:
    """γ_N from both sides."""
    greedy = theory.greedy_information_gain(KERNEL, Z_MAX, NOISE, 1000).gain
    return [
        {
            "plays": n,
            "greedy": float(greedy[n - 1]),
            "bound": theory.information_gain_bound(KERNEL, Z_MAX, NOISE, n),
        }
        for n in (10, 30, 100, 300, 1000)
    ]


def constants() -> list[dict]:
    """What a printed inequality says on an example on which it fails, and what the corrected one says."""
    once, blocks = theory.information_gain(1.0, [1], 0.1), theory.information_gain(1.0, [10], 1.0)
    variances = 1.0 / (1.0 + np.arange(10))  # of a constant curve after 0, 1, … plays, σ = 1
    columns = ("lemma", "example", "value", "printed", "corrected")
    examples = [
        (
            "Σ σ² ≤ C γ",
            "1 play, σ = 0.1",
            1.0,
            once / math.log(101.0),
            theory.variance_per_information(1.0, 0.1) * once,
        ),
        ("variance decrease", "v = σ² = 4", 4.0**2 / (4.0 + 4.0), 4.0 / 4.0, 4.0 * 4.0 / 4.0),
        ("ς² ≤ 3 Σ σ²", "constant curve, 4 plays", 16.0, 3.0 * 4.0, 4.0 * 4.0),
        ("ς² ≤ d", "constant curve, d = 4", 16.0, 4.0, 4.0**2),
        (
            "ς² by variances when played",
            "constant curve, 10 plays, σ = 1",
            100.0,
            3.0 * float((10.0 - np.arange(10)) @ variances),
            theory.variance_per_information(1.0, 1.0, 10) * blocks,
        ),
        ("Σ n^-½ ≤ √N (UCB-Z)", "N = 100", float((np.arange(1, 101) ** -0.5).sum()), 10.0, 20.0),
    ]
    return [dict(zip(columns, example, strict=True)) for example in examples]


def show(found: dict) -> None:
    print(f"{'N':>5}{'greedy':>9}{'γ_N ≤':>9}")
    for line in found["information"]:
        print(f"{line['plays']:>5}{line['greedy']:>9.2f}{line['bound']:>9.2f}")
    names = f"{'regret':>8}{'± s.e.':>8}{'corrected':>11}{'/ regret':>10}{'printed':>9}{'seconds':>9}"
    print(f"\n{'policy':<10}{'play':<10}{names}")
    for line in found["regret"]:
        print(
            f"{line['policy']:<10}{line['play']:<10}{line['regret']:>8.1f}{line['standard_error']:>8.1f}"
            f"{line['corrected_bound']:>11,.0f}{line['corrected_bound'] / line['regret']:>10.1f}"
            f"{line['printed_bound']:>9,.0f}{line['seconds']:>9.1f}"
        )
    print(f"any policy: {found['any_policy']:,.0f}")
    print(f"\n{'printed':<30}{'example':<34}{'value':>8}{'printed':>9}{'corrected':>11}")
    for line in found["constants"]:
        print(
            f"{line['lemma']:<30}{line['example']:<34}{line['value']:>8.2f}{line['printed']:>9.2f}"
            f"{line['corrected']:>11.2f}"
        )


def draw(rows: list[dict]) -> bytes:
    """One panel per policy: measured regret and bound against the round, for multiple play."""
    figure, axes = plots.pyplot().subplots(1, 2, figsize=(10.0, 3.8), sharey=True, layout="constrained")
    for axis, name in zip(axes, POLICIES, strict=True):
        lines = [line for line in rows if line["policy"][1:] == name and line["play"] != "single"]
        for colour, line in zip(plots.COLOURS, lines, strict=False):
            axis.plot(line["rounds"], line["bound_by_round"], color=colour, linestyle="--")
            axis.plot(line["rounds"], line["regret_by_round"], color=colour, label=f"d = {line['policy'][0]}")
        rounds = lines[0]["rounds"]
        axis.plot(rounds, [any_policy(t) for t in rounds], color="grey", linestyle=":", label="bound for any policy")
        axis.plot([], [], color="black", linestyle="--", label="bound of the theorem")
        axis.plot([], [], color="black", label="measured")
        axis.set(title=f"d{name}, multiple play", xlabel="round", xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("cumulative lookahead regret")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside right center")
    return plots.png(figure)


if __name__ == "__main__":
    main()
