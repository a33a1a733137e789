"""Figure 1: examples of recovery functions, drawn from a Gaussian process, and a lookahead tree on them."""

from collections.abc import Callable

import jax
import numpy as np

from jaxband import checks, planners, plots, recovery
from jaxband.experiments import paper
from jaxband.experiments.output import Report
from jaxband.kernels import SquaredExponential
from jaxband.plots import Node
from jaxband.problem import next_z

LENGTHSCALE = 5.0
DEPTH = 2
RESTS = (3, 9, 17)  # Z_t of the three arms


def run(seed: int, announce: Callable[[str], None]) -> Report:
    """Three curves, and what all plans of two plays earn from the rests Z_t on."""
    seed = checks.integer("seed", seed, 0, 2**32 - 1, remedy="JAX would take it modulo 2³²")
    announce("recovery functions and a tree")
    curves = recovery.gp(jax.random.key(seed), SquaredExponential(LENGTHSCALE), len(RESTS), paper.Z_MAX)
    root = _grow(np.asarray(curves), RESTS, DEPTH)
    leaves = _leaves(root)
    best = max(leaves, key=lambda leaf: leaf["total"])
    plan = planners.exhaustive(DEPTH).plan(curves, np.array(RESTS))
    greedy = _greedy(root)
    found = [arm + 1 for arm in plan.arms.tolist()]
    document = {
        "experiment": "figure1",
        "seed": seed,
        "lengthscale": LENGTHSCALE,
        "curves": np.asarray(curves).tolist(),
        "rests": list(RESTS),
        "leaves": leaves,
        "plan": found,
        "greedy": greedy,
    }
    return Report(
        document,
        title=f"All plans of {DEPTH} plays from the rests {RESTS}",
        columns=("arms", "rests", "rewards", "total", ""),
        rows=[
            (
                ", ".join(map(str, leaf["arms"])),
                ", ".join(map(str, leaf["rests"])),
                ", ".join(f"{reward:+.2f}" for reward in leaf["rewards"]),
                f"{leaf['total']:+.2f}",
                ", ".join(word for word, arms in (("best", best["arms"]), ("greedy", greedy)) if arms == leaf["arms"]),
            )
            for leaf in leaves
        ],
        remarks=[f"planners.exhaustive({DEPTH}) plays arms {', '.join(map(str, found))}: {plan.value.item():+.2f}"],
        pictures={"figure1.png": lambda: plots.lookahead(np.asarray(curves), root)},
    )


def _grow(curves: np.ndarray, rests: tuple[int, ...], depth: int, arm: int | None = None, reward: float = 0.0) -> Node:
    """The tree of all plays in the next `depth` rounds."""
    children = []
    for j in range(len(rests)) if depth else ():
        later = tuple(next_z(np.array(rests, np.int32), j, curves.shape[1] - 1).tolist())
        children.append(_grow(curves, later, depth - 1, j, float(curves[j, rests[j]])))
    return Node(rests, arm, reward, children)


def _leaves(node: Node, path: tuple[tuple[int, int, float], ...] = ()) -> list[dict]:
    """What is played on the way to every leaf. Arms count from 1, as in the picture."""
    if not node.children:
        arms, rests, rewards = (list(column) for column in zip(*path, strict=True))
        return [{"arms": arms, "rests": rests, "rewards": rewards, "total": sum(rewards)}]
    return [
        leaf
        for child in node.children
        for leaf in _leaves(child, (*path, (child.arm + 1, node.rests[child.arm], child.reward)))
    ]


def _greedy(node: Node) -> list[int]:
    """The arms of one that always takes what pays most now."""
    if not node.children:
        return []
    child = max(node.children, key=lambda child: child.reward)
    return [child.arm + 1, *_greedy(child)]
