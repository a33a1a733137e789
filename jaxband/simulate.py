"""One replication: a policy plays a problem, round by round.

    rests z ──plan──▶ arms of the block ──play──▶ reward ──update──▶ state
       ▲                                 │
       └──────────── step ───────────────┘

A plan is made at the first round of a block and played to the block's end. Shocks belong to rounds, not to blocks:
policies that plan at different paces meet the same noise.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks, prng
from jaxband.base import Policy, State
from jaxband.environment import Problem, step

REFRESH_EVERY = 2**15  # rounds between two `refresh` of a policy's state
FEW_SHOCKS = 128  # per plan; more are drawn as fast one plan at a time, and would take memory for all rounds


class Run(NamedTuple):
    """Everything that happened."""

    arms: Array  # [T]; the arm played in each round
    rewards: Array  # [T]; what it paid, noise included
    z: Array  # [T, K]; the rests of all arms when the round began
    watched: dict[str, Array]  # [T] each; what was asked for of the plan being played
    curves: Array  # [K, G]; the truth of this replication
    state: State  # what the policy knows at the end


class Rounds(NamedTuple):
    """A stretch of consecutive rounds."""

    arms: Array  # [n]
    rewards: Array  # [n]
    z: Array  # [n, K]
    watched: dict[str, Array]  # [n] each


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
    arms: Array  # [commit]; the current block's plan
    watched: dict[str, Array]  # scalars; what is recorded of that plan


def simulate(policy: Policy, problem: Problem, key: Array, horizon: int, *, watch: Sequence[str] = ()) -> Run:
    """Play `horizon` rounds. Pure: use it inside your own `jit` and `vmap`.

    `watch` names numbers of the policy's plans to record, such as "value", "certified" or an optimistic plan's "depth".

    >>> import jaxband as jb
    >>> problem = jb.Problem(jb.recovery.logistic([[1.0, 0.5, 5.0], [0.7, 0.5, 2.0]], z_max=10), noise=0.1)
    >>> policy = jb.policies.rgp_ts(jb.kernels.SquaredExponential(3.0), num_arms=2, z_max=10, noise=0.1)
    >>> jb.simulate(policy, problem, jax.random.key(0), horizon=50).rewards.shape
    (50,)
    """
    horizon = checks.whole_number("horizon", horizon, minimum=1)
    check_fit(policy, problem)
    replication, position = begin(policy, problem, key, watch)
    position, rounds = _play_long(policy, replication, position, horizon)
    return Run(*rounds, replication.curves, position.state)


def check_fit(policy: Policy, problem: Problem) -> None:
    """Do policy and problem have the same arms and the same grid?"""
    if policy.num_arms != problem.num_arms:
        raise ValueError(
            f"policy has {policy.num_arms} arms but the problem has {problem.num_arms}; build both with the same number"
        )
    z_max = getattr(policy, "z_max", problem.z_max)
    if z_max != problem.z_max:
        raise ValueError(
            f"policy has z_max {z_max} but the problem has {problem.z_max}; build both with the same z_max"
        )


def begin(policy: Policy, problem: Problem, key: Array, watch: Sequence[str] = ()) -> tuple[Replication, Position]:
    """The start of a replication: curves drawn, state initialised, nothing played."""
    key_curves, key_init, key_noise, key_plan = jax.random.split(key, 4)
    curves = problem.draw(key_curves)
    state = policy.init(key_init)
    if hasattr(policy, "inform"):
        state = policy.inform(state, curves)
    arms = jnp.zeros(policy.commit, jnp.int32)
    watched = _nothing_watched(policy, state, problem.z_init, key_plan, watch)
    return Replication(curves, problem.noise, key_noise, key_plan), Position(state, problem.z_init, arms, watched)


def _nothing_watched(policy, state, z, key, watch: Sequence[str]) -> dict[str, Array]:
    """A zero for everything that is watched of a plan."""
    if not watch:
        return {}
    if not hasattr(policy, "propose"):
        raise ValueError(f"watch must be empty for {type(policy).__name__}, got {list(watch)}; it makes no plans")
    plan = jax.eval_shape(policy.propose, key, state, z, jnp.zeros((), jnp.int32))._asdict()
    numbers = {name: value for name, value in plan.items() if value.shape == ()}
    for name in watch:
        checks.one_of("watch", name, numbers)
    return {name: jnp.zeros((), numbers[name].dtype) for name in watch}


def refresh_if_due(policy: Policy, position: Position, first_round: Array, num_rounds: int) -> Position:
    """The position with a refreshed state, if the `num_rounds` rounds before `first_round` make it due."""
    if not hasattr(policy, "refresh"):
        return position
    due = (first_round > 0) & (first_round % REFRESH_EVERY < num_rounds)
    return jax.lax.cond(due, lambda: position._replace(state=policy.refresh(position.state)), lambda: position)


def _play_long(policy: Policy, replication: Replication, position: Position, horizon: int) -> tuple[Position, Rounds]:
    """All rounds, with refreshed states in between if there are many."""
    whole = (horizon - 1) // REFRESH_EVERY  # at least one round is left for the last stretch
    rest = horizon - whole * REFRESH_EVERY
    if whole == 0 or not hasattr(policy, "refresh"):
        return play_rounds(policy, replication, position, 0, horizon)

    def stretch(position, first_round, num_rounds):
        position = refresh_if_due(policy, position, first_round, REFRESH_EVERY)
        return play_rounds(policy, replication, position, first_round, num_rounds)

    starts = REFRESH_EVERY * jnp.arange(whole, dtype=jnp.int32)
    position, rounds = jax.lax.scan(lambda p, t: stretch(p, t, REFRESH_EVERY), position, starts)
    rounds = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rounds)
    position, last = stretch(position, jnp.asarray(whole * REFRESH_EVERY, jnp.int32), rest)
    return position, jax.tree.map(lambda x, y: jnp.concatenate([x, y]), rounds, last)


def play_rounds(
    policy: Policy, replication: Replication, position: Position, first_round: Array, num_rounds: int
) -> tuple[Position, Rounds]:
    """`num_rounds` rounds from `first_round` on. The warm-up plays arms 0, 1, 2, … in turn; then blocks begin."""
    rounds = first_round + jnp.arange(num_rounds, dtype=jnp.int32)
    key_of_plan = _key_of_plan(policy, replication.key_plan, rounds)

    def play_one(position, inputs):
        t, shock = inputs
        position = position._replace(state=relearned(policy, position.state, t))
        arms, watched = _current_plan(policy, key_of_plan(t), position, t)
        arm = arms[(t - policy.warm_up) % policy.commit]
        arm = jnp.where(t < policy.warm_up, t % policy.num_arms, arm)
        z = position.z
        reward = replication.curves[arm, z[arm]] + replication.noise * shock
        state = policy.update(position.state, arm, z[arm], reward)
        z_next = step(z, arm, replication.curves.shape[1] - 1)
        return Position(state, z_next, arms, watched), Rounds(arm, reward, z, watched)

    return jax.lax.scan(play_one, position, (rounds, _shocks(replication, rounds)))


def relearned(policy: Policy, state: State, t: Array) -> State:
    """The state as the plan at round t finds it: a learning policy revises it after some of the blocks."""
    if not hasattr(policy, "relearn"):
        return state
    played = t - policy.warm_up
    due = (played >= 0) & (played % policy.commit == 0) & policy.learns_after(played // policy.commit)
    return jax.lax.cond(due, policy.relearn, lambda state: state, state)


def _current_plan(policy: Policy, key: Array, position: Position, t: Array) -> tuple[Array, dict[str, Array]]:
    """The plan being played at round t. The branch depends on t alone, so that it stays a branch under `vmap`."""

    def make():
        if _draws_ahead(policy):
            plan = policy.propose_from(key, position.state, position.z, t)
        elif position.watched:
            plan = policy.propose(key, position.state, position.z, t)
        else:
            return policy.plan(key, position.state, position.z, t).astype(jnp.int32), {}
        return plan.arms[: policy.commit].astype(jnp.int32), {name: getattr(plan, name) for name in position.watched}

    if policy.commit == 1:
        return make()
    begins = (t - policy.warm_up) % policy.commit == 0
    return jax.lax.cond(begins, make, lambda: (position.arms, position.watched))


def _draws_ahead(policy: Policy) -> bool:
    """Are a policy's random numbers drawn for many rounds at once? Not if it plans less often or needs many."""
    return hasattr(policy, "propose_from") and policy.commit == 1 and policy.num_shocks <= FEW_SHOCKS


def _key_of_plan(policy: Policy, key_plan: Array, rounds: Array) -> Callable[[Array], Array]:
    """What the plan at round t is random by: a key of its own, or normal numbers drawn ahead for all `rounds`."""
    if not _draws_ahead(policy):
        return lambda t: prng.fold_in(key_plan, t)
    size = -(-policy.num_shocks // 2)
    drawn = prng.normal_pairs(key_plan, rounds, size)

    def shocks(t):
        pairs = jax.lax.dynamic_slice_in_dim(drawn, (t - rounds[0]) * size, size)
        return prng.first_of_pairs(pairs, policy.num_shocks)

    return shocks


def _shocks(replication: Replication, rounds: Array) -> Array:
    """ε_t of the given rounds, drawn ahead of the loop."""
    return prng.normals(replication.key_noise, rounds)
