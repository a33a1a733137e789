"""Draws docs/recovering.png: three recovery curves, and what a policy that knows them plays.

python docs/pictures.py
"""

from pathlib import Path

import jax
import numpy as np

import jaxband as jb
from jaxband.plots import COLOURS, png, pyplot

NAMES = ("favourite film", "short walk", "long run")
THETA = [[1.0, 0.6, 9.0], [0.45, 1.5, 0.5], [0.75, 1.0, 4.0]]


def main() -> None:
    curves = jb.recovery.logistic(THETA, z_max=14)
    problem = jb.Problem(curves, noise=0.0)
    runs = {
        "greedy": jb.policies.oracle(3, 14),
        "looks 6 rounds ahead": jb.policies.oracle(3, 14, planner=jb.planners.exhaustive(6), replan_every=1),
    }
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.0), layout="constrained", width_ratios=(1, 1.4))
    for arm, name in enumerate(NAMES):
        left.plot(np.asarray(curves[arm]), color=COLOURS[arm], marker=".", label=name)
    left.set(xlabel="rounds of rest", ylabel="expected reward", title="What an arm pays")
    left.legend(frameon=False, fontsize="small")
    for row, policy in enumerate(runs.values()):
        run = jb.simulate(policy, problem, jax.random.key(0), horizon=36)
        right.scatter(np.arange(36), np.full(36, row), c=[COLOURS[a] for a in np.asarray(run.arms)], marker="s", s=42)
        right.text(36.3, row, f"{float(run.rewards.mean()):.2f}", va="center")
    right.set(xlabel="round", title="What is played, and the mean reward", yticks=range(2), yticklabels=list(runs))
    right.set(ylim=(-0.7, 1.7), xlim=(-1, 39.5))
    Path(__file__).with_name("recovering.png").write_bytes(png(figure))


if __name__ == "__main__":
    main()
