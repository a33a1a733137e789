"""One replication: a policy plays a problem, block by block.

    rests z ──plan──▶ arms of the block ──play──▶ rewards ──update──▶ state
       ▲                                │
       └──────────── step ──────────────┘

A block is planned once and then played to its end, so nothing is decided twice and no branch is taken inside the loop.
Shocks belong to rounds, not to blocks: policies that plan at different paces meet the same noise.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.base import Policy, State
from jaxband.environment import Problem, step


class Run(NamedTuple):
    """Everything that happened."""

    arms: Array  # [T]; the arm played in each round
    rewards: Array  # [T]; what it paid, noise included
    z: Array  # [T, K]; the rests of all arms when the round began
    curves: Array  # [K, G]; the truth of this replication
    state: State  # what the policy knows at the end


class Rounds(NamedTuple):
    """A stretch of consecutive rounds."""

    arms: Array  # [n]
    rewards: Array  # [n]
    z: Array  # [n, K]


class Replication(NamedTuple):
    """What stays the same during one replication."""

    curves: Array  # [K, G]
    noise: Array
    key_noise: Array
    key_plan: Array


class Position(NamedTuple):
    """What changes from round to round."""

    state: State
    z: Array  # [K]


def simulate(policy: Policy, problem: Problem, key: Array, horizon: int) -> Run:
    """Play `horizon` rounds. Pure: use it inside your own `jit` and `vmap`.

    >>> import jaxband as jb
    >>> problem = jb.Problem(jb.recovery.logistic([[1.0, 0.5, 5.0], [0.7, 0.5, 2.0]], z_max=10), noise=0.1)
    >>> policy = jb.policies.rgp_ts(jb.kernels.SquaredExponential(3.0), num_arms=2, z_max=10, noise=0.1)
    >>> jb.simulate(policy, problem, jax.random.key(0), horizon=50).rewards.shape
    (50,)
    """
    horizon = checks.whole_number("horizon", horizon, minimum=1)
    check_fit(policy, problem)
    replication, position = begin(policy, problem, key)
    warm_up = min(policy.warm_up, horizon)
    num_blocks, rest = divmod(horizon - warm_up, policy.commit)
    position, first = play_warm_up(policy, replication, position, warm_up)
    position, middle = play_blocks(policy, replication, position, warm_up, num_blocks)
    position, last = play_blocks(policy, replication, position, horizon - rest, int(rest > 0), plays=rest)
    rounds = jax.tree.map(lambda *parts: jnp.concatenate(parts), first, middle, last)
    return Run(*rounds, replication.curves, position.state)


def check_fit(policy: Policy, problem: Problem) -> None:
    """Do policy and problem have the same arms and the same grid?"""
    if policy.num_arms != problem.num_arms:
        raise ValueError(f"policy has {policy.num_arms} arms but the problem has {problem.num_arms}; build both with the same number")
    z_max = getattr(policy, "z_max", problem.z_max)
    if z_max != problem.z_max:
        raise ValueError(f"policy has z_max {z_max} but the problem has {problem.z_max}; build both with the same z_max")


def begin(policy: Policy, problem: Problem, key: Array) -> tuple[Replication, Position]:
    """The start of a replication: curves drawn, state initialised, nothing played."""
    key_curves, key_init, key_noise, key_plan = jax.random.split(key, 4)
    curves = problem.draw(key_curves)
    state = policy.init(key_init)
    if hasattr(policy, "inform"):
        state = policy.inform(state, curves)
    return Replication(curves, problem.noise, key_noise, key_plan), Position(state, problem.z_init)


def play_warm_up(policy: Policy, replication: Replication, position: Position, num_rounds: int) -> tuple[Position, Rounds]:
    """Rounds 0..num_rounds − 1: arms 0, 1, 2, … in turn."""
    rounds = jnp.arange(num_rounds)
    return _play(policy, replication, position, rounds % policy.num_arms, _shocks(replication, rounds))


def play_blocks(
    policy: Policy, replication: Replication, position: Position, first_round: Array, num_blocks: int, plays: int | None = None
) -> tuple[Position, Rounds]:
    """`num_blocks` blocks from `first_round` on, each planned once and played for `plays` rounds (default: policy.commit)."""
    plays = policy.commit if plays is None else plays
    starts = first_round + plays * jnp.arange(num_blocks)
    shocks = _shocks(replication, (starts[:, None] + jnp.arange(plays)[None, :]).ravel()).reshape(num_blocks, plays)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(replication.key_plan, starts)

    def block(position, inputs):
        key_plan, t, shocks = inputs
        arms = policy.plan(key_plan, position.state, position.z, t)[:plays]
        return _play(policy, replication, position, arms, shocks)

    position, rounds = jax.lax.scan(block, position, (keys, starts, shocks))
    return position, jax.tree.map(lambda x: x.reshape(num_blocks * plays, *x.shape[2:]), rounds)


def _play(policy, replication, position, arms, shocks) -> tuple[Position, Rounds]:
    """Play the given arms, one round each."""

    def play_one(position, inputs):
        arm, shock = inputs
        z = position.z
        reward = replication.curves[arm, z[arm]] + replication.noise * shock
        state = policy.update(position.state, arm, z[arm], reward)
        return Position(state, step(z, arm, replication.curves.shape[1] - 1)), Rounds(arm, reward, z)

    return jax.lax.scan(play_one, position, (arms.astype(jnp.int32), shocks), unroll=len(shocks) == 1)


def _shocks(replication: Replication, rounds: Array) -> Array:
    """ε_t of the given rounds, drawn ahead of the loop."""
    return jax.vmap(lambda t: jax.random.normal(jax.random.fold_in(replication.key_noise, t)))(rounds)
