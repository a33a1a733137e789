"""What is learning the kernel worth? Reward with a lengthscale four times wrong, the right one, and a learned one.

    python benchmarks/learning.py [--replications 64] [--policies 3RGP-UCB,3RGP-TS,recommended] [--json FILE]

K = 10, z_max = 30, noise 0.1, T = 1,000; the kernel is learned after every 15 rounds. "Right" is l = 4 for curves drawn
from a squared exponential with l = 4, and l = 5, the paper's, for its logistic and gamma curves. The last column is the
share of what the wrong kernel loses that learning wins back, where there is a loss.
"""

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np
import tables

import jaxband as jb
from jaxband.base import Policy
from jaxband.experiments import paper
from jaxband.kernels import SquaredExponential

ARMS, Z_MAX, NOISE, HORIZON, LEARN_EVERY = 10, 30, 0.1, 1000, 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=64)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    settings = ("gp", 4.0), ("logistic", 5.0), ("gamma", 5.0)
    for policy, (setting, right) in itertools.product(arguments.policies.split(","), settings):
        made, options = POLICIES[policy], {"replications": arguments.replications}
        best = reward(setting, made(right, None), **options)
        for start in (right / 4, right * 4):
            wrong, learned = (reward(setting, made(start, every), **options) for every in (None, LEARN_EVERY))
            loss, back = best - wrong, learned - wrong
            rows.append(
                {
                    "policy": policy,
                    "curves": setting,
                    "start from l": start,
                    "fixed wrong": wrong.mean(),
                    "fixed right": best.mean(),
                    "learned": learned.mean(),
                    "loss": f"{loss.mean():.1f} ± {standard_error(loss):.1f}",
                    "won back": f"{back.mean():.1f} ± {standard_error(back):.1f}",
                    "share": back.mean() / loss.mean() if loss.mean() > 2 * standard_error(loss) else None,
                }
            )
            print(rows[-1], file=sys.stderr)
    tables.show(rows, arguments.json, replications=arguments.replications)


def three_step_bounds(lengthscale: float, every: int | None) -> Policy:
    kernel, refit_every = SquaredExponential(lengthscale), every and every // 3
    return jb.policies.rgp_ucb(kernel, ARMS, Z_MAX, NOISE, planner=jb.planners.exhaustive(3), refit_every=refit_every)


def three_step_sampling(lengthscale: float, every: int | None) -> Policy:
    kernel, refit_every = SquaredExponential(lengthscale), every and every // 3
    return jb.policies.rgp_ts(kernel, ARMS, Z_MAX, NOISE, planner=jb.planners.subset(3), refit_every=refit_every)


def recommended(lengthscale: float, every: int | None) -> Policy:
    return jb.policies.recommended(SquaredExponential(lengthscale), ARMS, Z_MAX, NOISE, HORIZON, refit_every=every)


POLICIES = {"3RGP-UCB": three_step_bounds, "3RGP-TS": three_step_sampling, "recommended": recommended}


def reward(setting: str, policy: Policy, replications: int) -> np.ndarray:
    truth = SquaredExponential(4.0)
    curves = (lambda key: jb.recovery.gp(key, truth, ARMS, Z_MAX)) if setting == "gp" else paper.curves(setting)
    problem = jb.Problem(curves, noise=NOISE)
    return jb.monte_carlo(policy, problem, horizon=HORIZON, replications=replications, lookahead=1).expected_reward


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


if __name__ == "__main__":
    main()
