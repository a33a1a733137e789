"""What does a plan cost? Microseconds per plan and core for every planner over K and d, and for mctx.

    pip install mctx
    python benchmarks/planners.py [--quick] [--json FILE]

Curves are drawn from a squared exponential with l = 4, rests are random. 64 plans side by side on one device, best of
several calls, compilation excluded; trees of more than 10^6 leaves are planned one at a time. mctx gets 1,000
simulations of Gumbel MuZero with the true model, no prior and no value; the table says how often its first arm begins
an optimal plan.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxband as jb
from jaxband.planners import slot_sets

Z_MAX = 30
LANES = 64
SHAPES = [(3, 3), (10, 2), (10, 3), (10, 4), (30, 3), (30, 4), (10, 6), (10, 8), (10, 10)]
SIMULATIONS = 1000
BUDGET = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only K=10, d=4; K=30, d=4; K=10, d=8")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    shapes = [(10, 4), (30, 4), (10, 8)] if arguments.quick else SHAPES

    rows = [measure(num_arms, depth) for num_arms, depth in shapes]
    names = [name for name in rows[0] if name not in ("num_arms", "depth", "mctx_first_arm_optimal")]
    print("microseconds per plan on one core")
    print(f"{'K':>3}{'d':>4}" + "".join(f"{name:>18}" for name in names) + f"{'mctx finds it':>16}")
    for row in rows:
        cells = "".join(f"{row[name]:>18,.1f}" if row[name] else f"{'-':>18}" for name in names)
        share = row["mctx_first_arm_optimal"]
        print(
            f"{row['num_arms']:>3}{row['depth']:>4}{cells}" + (f"{share:>16.0%}" if share is not None else f"{'-':>16}")
        )
    by_shape = {(row["num_arms"], row["depth"]): row for row in rows}
    many_arms, deep = by_shape[30, 4], by_shape[10, 8]
    print(f"K=30, d=4: subset is {many_arms['exhaustive'] / many_arms['subset']:,.0f} x as fast as exhaustive search")
    print(f"K=10, d=8: subset costs {deep['subset'] / many_arms['subset']:.1f} x what K=30, d=4 costs")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(num_arms: int, depth: int) -> dict:
    """One row of the table."""
    leaves = num_arms**depth
    key = jax.random.key(num_arms * 100 + depth)
    curves, z, root = problems(key, num_arms)
    points = jax.vmap(lambda c, rests: slot_sets.gather_points(c, rests, depth))(curves, z)
    exact = jax.jit(jax.vmap(jb.planners.subset(depth).plan_window))(points)
    alpha = jnp.full(LANES, 5.0)

    def plan(planner, lanes=LANES):
        return per_plan(jax.jit(jax.vmap(planner.plan_window)), lanes, points[:lanes])

    def plan_ucb(planner):
        return per_plan(jax.jit(jax.vmap(planner.plan_ucb)), LANES, curves, root, z, alpha)

    row = {
        "num_arms": num_arms,
        "depth": depth,
        "exhaustive": plan(jb.planners.exhaustive(depth), LANES if leaves <= 10**6 else 1) if leaves <= 10**8 else None,
        "subset": plan(jb.planners.subset(depth)),
        "beam": plan(jb.planners.beam(depth)),
        f"optimistic {BUDGET}": plan(jb.planners.optimistic(depth, BUDGET)),
        "exhaustive UCB": plan_ucb(jb.planners.exhaustive(depth)) if leaves <= 10**6 else None,
        "subset UCB": plan_ucb(jb.planners.subset(depth)) if depth <= 8 else None,
    }
    return row | mctx_row(points, exact.value)


def problems(key, num_arms: int):
    """Curves [N, K, G], rests [N, K], and posterior roots [N, K, G, r] after ten plays per arm."""
    kernel = jb.kernels.SquaredExponential(4.0)
    key_curves, key_z, key_plays = jax.random.split(key, 3)
    curves = jax.vmap(lambda k: jb.recovery.gp(k, kernel, num_arms, Z_MAX))(jax.random.split(key_curves, LANES))
    z = jax.random.randint(key_z, (LANES, num_arms), 0, Z_MAX + 1)
    prior = jb.posterior.prior(kernel, num_arms, Z_MAX)

    def root_after_plays(key):
        def play(state, inputs):
            arm, rest = inputs
            return jb.posterior.observe(state, arm, rest, 0.0, 0.1), None

        arms = jnp.arange(10 * num_arms, dtype=jnp.int32) % num_arms
        rests = jax.random.randint(key, arms.shape, 0, Z_MAX + 1)
        return jax.lax.scan(play, prior, (arms, rests))[0].root

    return curves, z, jax.jit(jax.vmap(root_after_plays))(jax.random.split(key_plays, LANES))


def per_plan(function, lanes: int, *arguments, calls: int = 7) -> float:
    """Microseconds per plan, the best of several calls."""
    jax.block_until_ready(function(*arguments))
    seconds = []
    for _ in range(calls):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        seconds.append(time.perf_counter() - began)
        if sum(seconds) > 20.0:
            break
    return min(seconds) / lanes * 1e6


def mctx_row(points, best) -> dict:
    """Time per plan of mctx, and how often the first arm it chooses begins an optimal plan."""
    try:
        import mctx
    except ImportError:
        return {"mctx": None, "mctx_first_arm_optimal": None}
    num_arms, depth = points.shape[1], (points.shape[2] + 1) // 2

    def step(params, key, arm, node):
        """A node is the point at which each arm would be played next [N, K], and the number of plays made [N]."""
        upcoming, played = node
        chosen = jnp.arange(num_arms)[None, :] == arm[:, None]
        here = jnp.take_along_axis(params, jnp.minimum(upcoming, 2 * depth - 2)[:, :, None], axis=2)[:, :, 0]
        reward = jnp.where(played < depth, jnp.sum(jnp.where(chosen, here, 0.0), axis=1), 0.0)
        upcoming = jnp.where(chosen, depth, upcoming + 1)
        discount = jnp.where(played + 1 < depth, 1.0, 0.0)
        output = mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=jnp.zeros((len(arm), num_arms)), value=jnp.zeros(arm.shape)
        )
        return output, (upcoming, played + 1)

    @jax.jit
    def first_arm(points, key):
        lanes = points.shape[0]
        start = (jnp.zeros((lanes, num_arms), int), jnp.zeros(lanes, int))
        root = mctx.RootFnOutput(prior_logits=jnp.zeros((lanes, num_arms)), value=jnp.zeros(lanes), embedding=start)
        return mctx.gumbel_muzero_policy(
            points, key, root, step, SIMULATIONS, max_depth=depth, max_num_considered_actions=num_arms
        ).action

    key = jax.random.key(0)
    micros = per_plan(first_arm, LANES, points, key, calls=2)
    arms = first_arm(points, key)
    right = np.mean(np.asarray(value_after(points, arms, depth)) >= np.asarray(best) - 1e-4)
    return {"mctx": micros, "mctx_first_arm_optimal": float(right)}


def value_after(points, arms, depth: int):
    """The best total of plans that begin with the given arms, [N]."""
    first = jnp.take_along_axis(points[:, :, 0], arms[:, None], axis=1)[:, 0]
    if depth == 1:
        return first
    played = (jnp.arange(points.shape[1])[None, :] == arms[:, None])[:, :, None]
    again = points[:, :, depth:]  # gaps 0..d−2; a window one shorter has gaps up to d−3
    from_now = jnp.where(played, again, points[:, :, 1:depth])
    shorter = jnp.concatenate([from_now, again[:, :, :-1]], axis=2)
    return first + jax.jit(jax.vmap(jb.planners.subset(depth - 1).plan_window))(shorter).value


if __name__ == "__main__":
    main()
