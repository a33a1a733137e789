"""Figure 3: dRGP-TS with optimistic planning. Total reward, and the depth d_N of the tree, as the budget N grows.

Curves are drawn from the policy's own prior, a squared exponential with l = 4. All budgets meet the same curves, noise
and draws, so that differences between them are paired. Beside them the reward of exact plans.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxband import planners, plots, policies, recovery
from jaxband.experiments import paper
from jaxband.experiments.output import Report
from jaxband.kernels import SquaredExponential
from jaxband.problem import Problem
from jaxband.simulation.monte_carlo import Result, monte_carlo

LENGTHSCALE = 4.0


class Setting(NamedTuple):
    num_arms: int
    depth: int
    budgets: tuple[int, ...]  # run by default
    all_budgets: tuple[int, ...]  # the paper's


SETTINGS = (
    Setting(10, 4, (100, 500, 1000, 2000, 5000, 10_000), (100, 500, *range(1000, 10_001, 1000))),
    Setting(
        30,
        4,
        (100, 500, 1000, 5000, 10_000, 20_000),
        (100, 500, 1000, 5000, *range(10_000, 150_001, 10_000)),
    ),
    Setting(
        10,
        8,
        (100, 500, 1000, 5000, 10_000, 20_000, 100_000),
        (100, 500, 1000, 5000, *range(10_000, 100_001, 10_000)),
    ),
)


class Curve(NamedTuple):
    """One setting, measured."""

    setting: Setting
    results: dict[int, Result]  # by budget
    exact: Result


def run(replications: int, seed: int, full: bool, announce: Callable[[str], None]) -> Report:
    """All settings and budgets; `announce` is told each before it runs."""
    curves = [_run_setting(setting, replications, seed, full, announce) for setting in SETTINGS]
    claims = _claims(curves)
    document = {
        "experiment": "figure3",
        "replications": replications,
        "seed": seed,
        "horizon": paper.HORIZON,
        "lengthscale": LENGTHSCALE,
        "settings": [_as_json(curve) for curve in curves],
        "claims": claims,
    }
    return Report(
        document,
        title=f"Reward at T = {paper.HORIZON} and mean depth d_N, {replications} replications",
        columns=("setting", "budget N", "of K^d", "reward", "lost to exact plans", "d_N", "plans certified"),
        rows=[row for setting in document["settings"] for row in _rows(setting)],
        remarks=[
            f"{'holds' if claim['holds'] else 'FAILS'}: {claim['claim']}: {claim['measured']}" for claim in claims
        ],
        pictures={"figure3.png": lambda: plots.budgets({_name(c.setting): _lines(c) for c in curves})},
    )


def _run_setting(setting: Setting, replications: int, seed: int, full: bool, announce) -> Curve:
    kernel = SquaredExponential(LENGTHSCALE)
    shape = (kernel, setting.num_arms, paper.Z_MAX)
    problem = Problem(lambda key: recovery.gp(key, *shape), noise=paper.NOISE)

    def play(planner, watch=()) -> Result:
        announce(f"{_name(setting)}: {planner}")
        policy = policies.rgp_ts(*shape, paper.NOISE, planner=planner)
        options = {"horizon": paper.HORIZON, "replications": replications, "seed": seed, "progress": False}
        return monte_carlo(policy, problem, **options, lookahead=1, watch=watch)

    budgets = setting.all_budgets if full else setting.budgets
    watch = ("tree_depth", "nodes", "certified")
    found = {n: play(planners.optimistic(setting.depth, n, bound="paper"), watch) for n in budgets}
    return Curve(setting, found, exact=play(planners.subset(setting.depth)))


def _as_json(curve: Curve) -> dict:
    cells = []
    for budget, result in curve.results.items():
        reward = result.summary()["total_reward"]
        lost = curve.exact.total_reward - result.total_reward
        cells.append(
            {
                "budget": budget,
                "mean": reward.mean,
                "standard_error": reward.standard_error,
                "lost_to_exact": float(lost.mean()),
                "lost_standard_error": _standard_error(lost),
                "depth": float(result.watched["tree_depth"].mean()),
                "nodes": float(result.watched["nodes"].mean()),
                "certified": float(result.watched["certified"].mean()),
            }
        )
    exact = curve.exact.summary()["total_reward"]
    return {
        "num_arms": curve.setting.num_arms,
        "depth": curve.setting.depth,
        "leaves": curve.setting.num_arms**curve.setting.depth,
        "exact": {"mean": exact.mean, "standard_error": exact.standard_error},
        "budgets": cells,
    }


def _rows(setting: dict) -> list[Sequence[str]]:
    name = f"K={setting['num_arms']}, d={setting['depth']}"
    rows = []
    for cell in setting["budgets"]:
        reward = f"{cell['mean']:.1f} ± {cell['standard_error']:.1f}"
        lost = f"{cell['lost_to_exact']:.1f} ± {cell['lost_standard_error']:.1f}"
        share = f"{cell['budget'] / setting['leaves']:.2g}"
        rows.append(
            (name, f"{cell['budget']:,}", share, reward, lost, f"{cell['depth']:.2f}", f"{cell['certified']:.1%}")
        )
    exact = f"{setting['exact']['mean']:.1f} ± {setting['exact']['standard_error']:.1f}"
    return [*rows, (name, "exact", "", exact, "", "", "")]


def _claims(curves: Sequence[Curve]) -> list[dict]:
    """What the paper says Figure 3 shows, and whether it does here."""
    small, many_arms, deep = curves
    after = [n for n in small.results if n >= 500]
    depths = [float(small.results[n].watched["tree_depth"].mean()) for n in after]
    lost = {n: small.results[after[-1]].total_reward - small.results[n].total_reward for n in after[:-1]}
    plateau = max(abs(float(d.mean())) for d in lost.values())
    found = many_arms.results[5000]
    missed = many_arms.exact.total_reward - found.total_reward
    deep_depths = {n: float(result.watched["tree_depth"].mean()) for n, result in deep.results.items()}
    largest = max(deep_depths)
    rewards = [float(result.total_reward.mean()) for result in deep.results.values()]
    return [
        {
            "claim": "K=10, d=4: from N = 500 on the tree is 4 deep and the reward stays within 1 % of the last",
            "measured": f"d_N >= {min(depths):.3f}, rewards differ by at most {plateau:.2f}",
            "holds": min(depths) >= 3.95 and plateau <= 0.01 * float(small.exact.total_reward.mean()),
        },
        {
            "claim": "K=30, d=4: plans are optimal after about 5,000 of 810,000 policies (0.6 %, printed as 0.1 %)",
            "measured": f"d_N = {float(found.watched['tree_depth'].mean()):.3f}, "
            f"{float(found.watched['certified'].mean()):.1%} of plans certified, "
            f"{float(missed.mean()):.2f} ± {_standard_error(missed):.2f} lost to exact plans",
            "holds": float(found.watched["tree_depth"].mean()) >= 3.95
            and abs(float(missed.mean())) <= 0.01 * float(many_arms.exact.total_reward.mean()),
        },
        {
            "claim": "K=10, d=8: optimal leaves after more policies, still no more than 0.1 % of 10^8",
            "measured": f"d_N = {deep_depths[largest]:.3f} for N = {largest:,}, "
            f"{float(deep.results[largest].watched['certified'].mean()):.1%} of plans certified",
            "holds": deep_depths[largest] >= 7.9,
        },
        {
            "claim": "K=10, d=8: while d_N < d, a larger N earns more",
            "measured": f"{rewards[0]:.1f} for N = {min(deep_depths):,}, {rewards[-1]:.1f} for N = {largest:,}",
            "holds": rewards[-1] > rewards[0],
        },
    ]


def _lines(curve: Curve) -> dict:
    """What the picture shows of one setting."""
    results = list(curve.results.values())
    return {
        "budgets": list(curve.results),
        "reward": [float(result.total_reward.mean()) for result in results],
        "error": [_standard_error(curve.exact.total_reward - result.total_reward) for result in results],
        "exact": curve.exact.summary()["total_reward"].mean,
        "depth": [float(result.watched["tree_depth"].mean()) for result in results],
        "deepest": curve.setting.depth,
    }


def _name(setting: Setting) -> str:
    return f"K={setting.num_arms}, d={setting.depth}"


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
