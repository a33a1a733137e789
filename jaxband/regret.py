"""Regret as section 4 of the paper defines it, at the rests that the policy itself brought about.

    instantaneous:  Σ_t  max_j f_j(Z_j,t) − f_{J_t}(Z_{J_t},t)
    d-step lookahead:  Σ_h  M*(Z_hd) − Σ_{t=hd}^{hd+d−1} f_{J_t}(Z_{J_t},t),   M* the best total of d plays from there

Multiple play lets M* repeat an arm within the d plays, single play does not. Any policy can be measured, whatever
its own depth. A last block that the horizon cuts short is compared with the best sequence of the same length.

Beside it what section 4 calls intractable: the regret against the best sequence of all T plays (`full_horizon`), which
`optimum` finds for small problems; for others the `bound_gap` to a certified upper bound, which is never less than it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._compiled import batching
from jaxband._runtime.entry_points import argument, compiled
from jaxband.base import IDLE, Planner
from jaxband.planners import slot_sets
from jaxband.planners._subset import subset
from jaxband.problem import expected_rewards


def expected(curves: Array, z: Array, arms: Array) -> Array:
    """f_J(Z_J) of the played arms, [n]: the rewards without their noise. z [n, K]; arms [n], or [n, m] summed up.

    No play (arm −1) pays 0.
    """
    return _expected(*_arrays(curves, z, arms))


@compiled
def _expected(curves: Array, z: Array, arms: Array) -> Array:
    if arms.ndim == 1:
        values = curves[arms, jnp.take_along_axis(z, arms[:, None], axis=1)[:, 0]]
        return jnp.where(arms < 0, 0.0, values)
    values = curves[arms, jnp.take_along_axis(z, arms, axis=1)]
    return jnp.sum(jnp.where(arms < 0, 0.0, values), axis=1)


def instantaneous(curves: Array, z: Array, arms: Array, *, available: Array | None = None, idle: bool = False) -> Array:
    """What each round fell short of the best arm at the same rests, [n]; of the best m for arms [n, m].

    Only arms that are `available` [n, K] count, if given; with `idle`, only those that pay more than nothing.
    """
    if available is not None:
        checks.shape("available", available, np.shape(z), "[n, K]")
        available = argument(available, bool)
    return _instantaneous(*_arrays(curves, z, arms), available, bool(idle))


@compiled(static=("idle",))
def _instantaneous(curves: Array, z: Array, arms: Array, available: Array | None, idle: bool) -> Array:
    earned = _expected(curves, z, arms)
    values = jax.vmap(lambda rests: expected_rewards(curves, rests))(z)
    if available is None and not idle and arms.ndim == 1:
        return batching.fast_max(values) - earned
    if available is not None:
        values = jnp.where(available, values, -jnp.inf)
    best = jax.lax.top_k(values, 1 if arms.ndim == 1 else arms.shape[1])[0]
    return jnp.sum(jnp.maximum(best, 0.0) if idle else jnp.where(best > -jnp.inf, best, 0.0), axis=1) - earned


def lookahead(
    curves: Array, z: Array, arms: Array, depth: int, *, repeats: bool = True, num_rounds: Array | None = None
) -> Array:
    """What each block of `depth` rounds fell short of the best sequence from where it began, [⌈n/d⌉].

    Only the first `num_rounds` rounds count (default: all n).
    """
    curves, z, arms = _arrays(curves, z, arms)
    planner = subset(depth, repeats)
    planner.check(curves.shape[0])
    num_rounds = argument(arms.shape[0] if num_rounds is None else num_rounds, np.int32)
    return _lookahead(curves, z, arms, num_rounds, planner)


@compiled(static=("planner",))
def _lookahead(curves: Array, z: Array, arms: Array, num_rounds: Array, planner: Planner) -> Array:
    depth, num_rounds = planner.depth, jnp.minimum(num_rounds, arms.shape[0])
    counted = jnp.arange(arms.shape[0], dtype=jnp.int32) < num_rounds
    earned = jnp.where(counted, _expected(curves, z, arms), 0.0)
    earned = jnp.pad(earned, (0, -len(earned) % depth)).reshape(-1, depth).sum(axis=1)
    starts = z[::depth]
    left = num_rounds - depth * jnp.arange(starts.shape[0], dtype=jnp.int32)
    points = jax.vmap(lambda rests: slot_sets.gather_points(curves, rests, depth))(starts)
    return jax.vmap(lambda p, n: planner.plan_window(p, num_slots=n).value)(points, left) - earned


def full_horizon(expected_reward: Array, best_total: Array) -> Array:
    """Regret against the best sequence of all T plays, `optimum.finite(curves, z, T).total`; never negative.

    With T · `optimum.exact(curves).average` for the best total it is the regret against the best cycle: that may be
    negative by what rested arms add at the start, which does not grow with T.
    """
    return best_total - expected_reward


def bound_gap(expected_reward: Array, upper_bound: Array) -> Array:
    """How much more any policy might have earned, at most: an upper bound on the full-horizon regret."""
    return upper_bound - expected_reward


def _arrays(curves, z, arms) -> tuple[Array, Array, Array]:
    """The arguments as JAX arrays, checked."""
    checks.shape("curves", curves, (None, None), "[K, G]")
    num_arms, num_points = np.shape(curves)
    checks.shape("z", z, (None, num_arms), "[n, K]")
    checks.shape("arms", arms, (*np.shape(z)[:1], *np.shape(arms)[1:2]), "[n] or [n, m]")
    checks.indices("z", z, num_points, "the grid")
    checks.indices("arms", arms, num_arms, "the arms; -1: no play", minimum=IDLE)
    return argument(curves, float), argument(z, np.int32), argument(arms, np.int32)
