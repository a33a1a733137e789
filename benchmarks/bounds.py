"""What does a bound cost? Dual bounds of one and of many problems, and the price that a planner needs every round.

    python benchmarks/bounds.py [--json FILE]

Curves are drawn from a squared exponential with l = 4, G = 31. Best of several calls on one device, compilation
excluded. In the loop every lane's curves change by a tenth of a standard deviation per round, and the price is tracked
from the last one or found anew; "above" is how far the tracked bound is from the least one, "price off" likewise.
"""

import argparse
import functools
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from tables import show

import jaxband as jb

Z_MAX = 30
KERNEL = jb.kernels.SquaredExponential(4.0)
LANES, ROUNDS, CHANGE = 64, 200, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    bounds = [one_bound(num_arms) for num_arms in (10, 100, 1000)] + [many_bounds(1000, 10)]
    loops = [loop(num_arms, steps) for num_arms in (10, 30) for steps in (2, 3, 4, 6, None)]
    show(bounds)
    print(f"\nin a loop, {LANES} lanes, per call and lane")
    show(loops, arguments.json, bounds=bounds)


def one_bound(num_arms: int) -> dict:
    curves = draw(jax.random.key(0), num_arms)
    return {"K": num_arms, "problems": 1, "milliseconds": 1e3 * seconds(jax.jit(jb.optimum.dual_bound), curves)}


def many_bounds(problems: int, num_arms: int) -> dict:
    curves = jax.vmap(lambda key: draw(key, num_arms))(jax.random.split(jax.random.key(0), problems))
    compiled = jax.jit(jax.vmap(jb.optimum.dual_bound))
    return {"K": num_arms, "problems": problems, "milliseconds": 1e3 * seconds(compiled, curves)}


def loop(num_arms: int, steps: int | None) -> dict:
    """Prices of curves that drift, tracked in so many steps or, for None, solved to the end."""
    keys = jax.random.split(jax.random.key(1), LANES)
    curves = jax.vmap(lambda key: draw(key, num_arms))(keys)
    drifts = jax.vmap(lambda key: draw(jax.random.fold_in(key, 1), num_arms))(keys)
    prices = jax.vmap(jb.optimum.dual_bound)(curves).price

    def bound(curves, price):
        return (
            jb.optimum.dual_bound(curves) if steps is None else jb.optimum.dual_bound_from(curves, price, steps=steps)
        )

    def at(curves, drift, t):  # a slow rotation: the variance stays, every round changes the curves alike
        return jnp.cos(CHANGE * t) * curves + jnp.sin(CHANGE * t) * drift

    @jax.jit
    @jax.vmap
    def run(curves, drift, price):
        def play(price, t):
            found = bound(at(curves, drift, t), price)
            return found.price, (found.average, found.price, jnp.sum(found.relative_values))

        return jax.lax.scan(play, price, jnp.arange(1.0, ROUNDS + 1.0))[1]

    @jax.jit
    @jax.vmap
    def best(curves, drift):
        return jax.lax.map(lambda t: jb.optimum.dual_bound(at(curves, drift, t))[:2], jnp.arange(1.0, ROUNDS + 1.0))

    micros = 1e6 * seconds(run, curves, drifts, prices) / (LANES * ROUNDS)
    (average, price, _), (least, best_price) = run(curves, drifts, prices), best(curves, drifts)
    return {
        "K": num_arms,
        "steps": "to the end" if steps is None else steps,
        "microseconds": micros,
        "above": float(np.mean(average - least)),
        "price off": float(np.mean(np.abs(price - best_price))),
    }


@functools.partial(jax.jit, static_argnums=1)
def draw(key, num_arms: int):
    return jb.recovery.gp(key, KERNEL, num_arms, Z_MAX)


def seconds(function, *arguments, calls: int = 7) -> float:
    """The best of several calls."""
    jax.block_until_ready(function(*arguments))
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        taken.append(time.perf_counter() - began)
    return min(taken)


if __name__ == "__main__":
    main()
