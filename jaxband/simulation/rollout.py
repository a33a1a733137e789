"""One replication: a policy plays a problem, round by round.

    rests z ──choose──▶ arm ──play──▶ reward ──update──▶ state
       ▲                 │
       └──── next_z ─────┘

This is all that is asked of a policy; a loop written by hand with the same keys and rewards makes the same choices.
Shocks belong to rounds: all policies meet the same noise. An arm that cannot be played makes all rewards from that
round on NaN.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband._compiled import prng
from jaxband._runtime.entry_points import compiled
from jaxband.base import Policy, PolicyError, Round, State
from jaxband.problem import Problem, is_legal, rests_after, reward_of
from jaxband.simulation import guards

REFRESH_EVERY = 2**15  # rounds between two `refresh` of a policy's state


class Run(NamedTuple):
    """Everything that happened."""

    arms: Array  # [T] or [T, m]; what was played in each round
    rewards: Array  # the same shape; what it paid, noise included
    z: Array  # [T, K]; the rests of all arms when the round began
    available: Array | None  # [T, K] bool; None: all arms always were
    watched: dict[str, Array]  # [T] each; what was asked for of the plan being played
    curves: Array  # [K, G]; the truth of this replication
    state: State  # what the policy knows at the end


class Rounds(NamedTuple):
    """A stretch of consecutive rounds."""

    arms: Array  # [n] or [n, m]
    rewards: Array
    z: Array  # [n, K]
    available: Array | None  # [n, K]
    watched: dict[str, Array]  # [n] each


class ReplicationInputs(NamedTuple):
    """What stays the same during one replication."""

    problem: Problem
    curves: Array  # [K, G]
    key_noise: Array
    key_plan: Array
    key_available: Array


class Fault(NamedTuple):
    """The first arm that could not be played."""

    round: Array  # −1: there was none
    arm: Array


class ReplicationState(NamedTuple):
    """What changes from round to round."""

    state: State
    z: Array  # [K]
    fault: Fault


def simulate(policy: Policy, problem: Problem, key: Array, horizon: int, *, watch: Sequence[str] = ()) -> Run:
    """Play `horizon` rounds. Pure: use it inside your own `jit` and `vmap`.

    `watch` names numbers that the policy describes its plans by: "value", "certified", an optimistic plan's "nodes".
    An arm that cannot be played raises an error that names the round; inside `jit`, rewards are NaN from there on.

    >>> import jaxband as jb
    >>> problem = jb.Problem(jb.recovery.logistic([[1.0, 0.5, 5.0], [0.7, 0.5, 2.0]], z_max=10), noise=0.1)
    >>> policy = jb.policies.rgp_ts(jb.kernels.SquaredExponential(3.0), num_arms=2, z_max=10, noise=0.1)
    >>> jb.simulate(policy, problem, jax.random.key(0), horizon=50).rewards.shape
    (50,)
    """
    horizon = checks.integer("horizon", horizon, minimum=1)
    guards.check_fit(policy, problem)
    run, fault = _simulate(policy, problem.given(_curves(problem.curves, key)), key, horizon, tuple(watch))
    if not isinstance(fault.round, jax.core.Tracer) and fault.round >= 0:
        raise faulty_arm(policy, problem, int(fault.round), fault.arm)
    return run


@compiled
def _curves(curves: Array | Callable, key: Array) -> Array:
    """This replication's curves, drawn by a program of their own, so that the next one does not know the problem."""
    return curves(prng.split(key, 5)[0]) if callable(curves) else curves


@compiled(static=("horizon", "watch"))
def _simulate(policy: Policy, problem: Problem, key: Array, horizon: int, watch: tuple[str, ...]) -> tuple[Run, Fault]:
    inputs, position = begin(policy, problem, key)
    position, rounds = _play_long(policy, inputs, position, horizon, watch)
    return Run(*rounds, inputs.curves, position.state), position.fault


def begin(policy: Policy, problem: Problem, key: Array) -> tuple[ReplicationInputs, ReplicationState]:
    """The start of a replication: curves drawn, state initialised, nothing played."""
    key_curves, key_init, key_noise, key_plan, key_available = prng.split(key, 5)
    curves = problem.draw(key_curves)
    state = guards.initial_state(policy, key_init, curves)
    arm = jnp.zeros(() if problem.plays is None else (problem.plays,), jnp.int32)
    inputs = ReplicationInputs(problem, curves, key_noise, key_plan, key_available)
    return inputs, ReplicationState(state, problem.z_init, Fault(jnp.full((), -1, jnp.int32), arm))


def refresh_if_due(policy: Policy, position: ReplicationState, first_round: Array, num_rounds: int) -> ReplicationState:
    """The position with a refreshed state, if the `num_rounds` rounds before `first_round` make it due."""
    due = (first_round > 0) & (first_round % REFRESH_EVERY < num_rounds)
    state = jax.lax.cond(due, lambda state: guards.refresh(policy, state), lambda state: state, position.state)
    return position._replace(state=state)


def _play_long(
    policy: Policy, inputs: ReplicationInputs, position: ReplicationState, horizon: int, watch: tuple[str, ...]
) -> tuple[ReplicationState, Rounds]:
    """All rounds, with refreshed states in between if there are many."""
    whole = (horizon - 1) // REFRESH_EVERY  # at least one round is left for the last stretch
    rest = horizon - whole * REFRESH_EVERY
    if whole == 0:
        return play_rounds(policy, inputs, position, 0, horizon, watch)

    def stretch(position, first_round, num_rounds):
        position = refresh_if_due(policy, position, first_round, REFRESH_EVERY)
        return play_rounds(policy, inputs, position, first_round, num_rounds, watch)

    starts = REFRESH_EVERY * jnp.arange(whole, dtype=jnp.int32)
    position, rounds = jax.lax.scan(lambda p, t: stretch(p, t, REFRESH_EVERY), position, starts)
    rounds = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rounds)
    position, last = stretch(position, jnp.asarray(whole * REFRESH_EVERY, jnp.int32), rest)
    return position, jax.tree.map(lambda x, y: jnp.concatenate([x, y]), rounds, last)


def play_rounds(
    policy: Policy,
    inputs: ReplicationInputs,
    position: ReplicationState,
    first_round: Array,
    num_rounds: int,
    watch: tuple[str, ...] = (),
) -> tuple[ReplicationState, Rounds]:
    """`num_rounds` rounds from `first_round` on. Random numbers are drawn ahead of the loop."""
    problem = inputs.problem
    rounds = first_round + jnp.arange(num_rounds, dtype=jnp.int32)
    drawn = _rows(guards.draw(policy, inputs.key_plan, rounds))
    shocks = prng.normals(inputs.key_noise, rounds, problem.plays)

    def play_one(position, t_and_shock):
        t, shock = t_and_shock
        round = Round(t, position.z, problem.who_is_available(inputs.key_available, t, position.z))
        arm, state = guards.choose(policy, drawn(t - first_round), position.state, round)
        fault = _first_fault(position.fault, t, arm, is_legal(problem, arm, round.available))
        reward = reward_of(inputs.curves, problem.noise, round.z, arm, shock, problem.may_idle)
        reward = jnp.where(fault.round >= 0, jnp.nan, reward)
        state = guards.update(policy, state, round, arm, reward)
        z = rests_after(round.z, arm, problem.z_max)
        seen = Rounds(arm, reward, round.z, round.available, guards.watched(policy, state, watch))
        return ReplicationState(state, z, fault), seen

    return jax.lax.scan(play_one, position, (rounds, shocks))


def _rows(tree) -> Callable[[Array], Any]:
    """Row i of every array [n, ...], by i. The arrays are flat: XLA on CPUs reads a slice of one axis fastest."""
    flat = jax.tree.map(lambda x: x.reshape(-1), tree)

    def row(i):
        def of_one(x, whole):
            size = x.size // x.shape[0]
            return jax.lax.dynamic_slice_in_dim(whole, i * size, size).reshape(x.shape[1:])

        return jax.tree.map(of_one, tree, flat)

    return row


def _first_fault(fault: Fault, t: Array, arm: Array, legal: Array) -> Fault:
    is_new = (fault.round < 0) & ~legal
    return Fault(jnp.where(is_new, t, fault.round), jnp.where(is_new, arm, fault.arm))


def faulty_arm(policy: Policy, problem: Problem, round: int, arm: Array, replication: int | None = None) -> PolicyError:
    """What is said of an arm that could not be played."""
    where = f"round {round}" if replication is None else f"replication {replication}, round {round}"
    played = jnp.asarray(arm).tolist()
    if problem.plays is None:
        rule = f"an arm in 0..{problem.num_arms - 1}"
    else:
        rule = f"{problem.plays} different arms in 0..{problem.num_arms - 1}, in rising order"
    if problem.available is not None:
        rule += " that round.available allows; if too few are available, -1 for those that are missing"
    elif problem.idle:
        rule += ", or -1 for no play"
    return PolicyError(f"{policy.title()} chose arm {played} in {where}; choose must return {rule}")
