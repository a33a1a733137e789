"""Which policy should one run? The share of the dual bound that every policy of the library earns.

    python benchmarks/policy_study.py [--replications 256] [--horizon 1000] [--seed 0] [--json FILE] [--plot FILE]
    python benchmarks/policy_study.py --classes l=4,gamma --policies recommended --replications 1000

Curves from squared exponentials (a new draw per replication, the policy's kernel being the right one) and the paper's
logistic and gamma curves (kernel with l = 5), z_max = 30, noise 0.1. A share is the ratio of the mean expected reward
to the mean upper bound T·D, with its standard error; in brackets that of the last half of the rounds. Differences to
the paper's 3RGP-TS are paired: same curves, same noise.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import tables

import jaxband as jb
from jaxband import plots
from jaxband.experiments import paper

Z_MAX, NOISE = 30, 0.1
CLASSES = {  # name -> lengthscale of the curves, or None for the paper's; arms
    "l=4": (4.0, 10),
    "l=1": (1.0, 10),
    "l=2": (2.0, 10),
    "l=8": (8.0, 10),
    "K=3": (4.0, 3),
    "K=30": (4.0, 30),
    "logistic": (None, 10),
    "gamma": (None, 10),
}
SUBSET = jb.planners.subset


def policies(kernel, arms: int, horizon: int, setting: str) -> dict:
    """Every policy of the library, what each ingredient of the recommended one adds, and oracles."""
    shape = kernel, arms, Z_MAX, NOISE
    best = jb.policies.recommended(*shape, horizon)
    parts = {"planner": best.planner, "beta": None, "horizon": horizon}
    pointwise = jb.policies.rgp_pointwise
    chosen = {
        "random": jb.policies.random(arms),
        "round robin": jb.policies.round_robin(arms),
        "UCB-Z": jb.policies.ucb_z(arms, Z_MAX, NOISE, horizon=horizon),
        "1RGP-UCB": jb.policies.rgp_ucb(*shape),
        "1RGP-TS": jb.policies.rgp_ts(*shape),
        "3RGP-UCB": jb.policies.rgp_ucb(*shape, planner=jb.planners.exhaustive(3)),
        "3RGP-TS": jb.policies.rgp_ts(*shape, planner=SUBSET(3)),
        "3RGP-TS, replanned": jb.policies.rgp_ts(*shape, planner=SUBSET(3), replan_every=1),
        "recommended": best,
        "  horizon not known": jb.policies.recommended(*shape),
        "  2.3 standard deviations": pointwise(*shape, **parts | {"beta": 2.3, "horizon": None}),
        "  2.3 fading": pointwise(*shape, **parts | {"beta": 2.3, "fade": True}),
        "  no terminal values": pointwise(*shape, **parts, terminal_values=False),
        "  one step ahead": pointwise(*shape, **parts | {"planner": SUBSET(1)}),
        "  three steps ahead": pointwise(*shape, **parts | {"planner": SUBSET(3)}),
        "  five steps ahead, exact": pointwise(*shape, **parts | {"planner": SUBSET(5)}),
        "  whole plans": pointwise(*shape, **parts, replan_every=None),
        "curves known, greedy": jb.policies.oracle(arms, Z_MAX),
        "curves known, Whittle index": jb.policies.oracle(arms, Z_MAX, planner=jb.planners.whittle()),
        "curves known, 14 ahead, terminal values": jb.policies.oracle(
            arms, Z_MAX, planner=best.planner, replan_every=1, terminal_values=True
        ),
    }
    if setting in paper.FAMILIES:
        chosen["RogueUCB-Tuned"] = jb.policies.rogue_ucb_tuned(setting, arms, Z_MAX, NOISE)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=256)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", type=names, default=list(CLASSES), help="some of them (default: all)")
    parser.add_argument("--policies", nargs="+", help="names of rows, beside 3RGP-TS (default: all)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    rows = {}
    for name in arguments.classes:
        for policy, result in run(name, arguments):
            row = rows.setdefault(policy, {"policy": policy} | dict.fromkeys(arguments.classes))
            row[name] = result
            print(f"{name}: {policy.strip()} {result['share']:.3f}", file=sys.stderr)
    shown = [{k: cell(v) for k, v in row.items()} for row in rows.values()]
    print(f"share of the bound ± standard error (second half), T = {arguments.horizon}")
    tables.show(shown)
    print("difference to 3RGP-TS, in shares, paired")
    tables.show([{k: cell(v, "difference") for k, v in row.items()} for row in rows.values()])
    if arguments.json:
        facts = {"horizon": arguments.horizon, "replications": arguments.replications, "seed": arguments.seed}
        tables.write(list(rows.values()), arguments.json, **facts)
    if arguments.plot:
        arguments.plot.write_bytes(picture(rows, arguments.horizon))


def names(text: str) -> list[str]:
    return text.split(",")


def run(name: str, arguments):
    horizon = arguments.horizon
    lengthscale, arms = CLASSES[name]
    kernel = jb.kernels.SquaredExponential(5.0 if lengthscale is None else lengthscale)
    curves = paper.curves(name) if lengthscale is None else lambda key: jb.recovery.gp(key, kernel, arms, Z_MAX)
    problem = jb.Problem(curves, noise=NOISE)
    options = {"horizon": horizon, "replications": arguments.replications, "seed": arguments.seed}
    options |= {"lookahead": 1, "upper_bound": True}
    chosen = policies(kernel, arms, horizon, name)
    if arguments.policies:
        chosen = {policy: made for policy, made in chosen.items() if policy.strip() in ("3RGP-TS", *arguments.policies)}
        if unknown := set(arguments.policies) - {policy.strip() for policy in chosen}:
            print(f"{name}: there is no row {', '.join(sorted(unknown))}", file=sys.stderr)
    results = {"3RGP-TS": jb.monte_carlo(chosen["3RGP-TS"], problem, **options)}
    for policy, played in chosen.items():
        results.setdefault(policy, None)
        results[policy] = results[policy] or jb.monte_carlo(played, problem, **options)
        yield policy, shares(results[policy], results["3RGP-TS"])


def shares(result, reference) -> dict:
    bound = result.upper_bound.mean()
    band = result.bands["expected_reward"]
    half = np.interp(result.horizon / 2, result.checkpoints, band.mean)
    difference = result.expected_reward - reference.expected_reward
    share = result.expected_reward.mean() / bound
    return {
        "share": share,
        "share_error": standard_error(result.expected_reward - share * result.upper_bound) / bound,
        "second_half": (result.expected_reward.mean() - half) / (bound / 2),
        "difference": difference.mean() / bound,
        "difference_error": standard_error(difference) / bound,
    }


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def cell(value, field: str = "share"):
    if not isinstance(value, dict):
        return value
    if field == "difference":
        return f"{value['difference']:+.3f} ± {value['difference_error']:.3f}"
    return f"{value['share']:.3f} ± {value['share_error']:.3f} ({value['second_half']:.3f})"


def picture(rows: dict, horizon: int) -> bytes:
    plt = plots.pyplot()
    shown = ["1RGP-UCB", "1RGP-TS", "3RGP-UCB", "3RGP-TS", "RogueUCB-Tuned", "recommended"]
    shown.append("curves known, 14 ahead, terminal values")
    figure, axes = plt.subplots(figsize=(9.0, 3.6), layout="constrained")
    for i, policy in enumerate(shown):
        cells = [rows.get(policy, {}).get(name) for name in CLASSES]
        places = [j + (i - 3) * 0.11 for j, value in enumerate(cells) if value]
        values = [value for value in cells if value]
        axes.errorbar(
            places,
            [value["share"] for value in values],
            yerr=[2 * value["share_error"] for value in values],
            fmt="o",
            color=plots.COLOURS[i],
            label=policy,
            markersize=4,
        )
    axes.set(xticks=range(len(CLASSES)), xticklabels=list(CLASSES), ylabel="share of the dual bound", ylim=(0.45, 1.02))
    axes.set_title(f"What a policy earns of what no policy can exceed, T = {horizon:,} (bars: ± 2 standard errors)")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, fontsize="small", ncols=4, loc="lower left")
    return plots.png(figure)


if __name__ == "__main__":
    main()
