"""How the methods of policies and planners are called: arguments checked, then one compiled program.

`base.Policy` and `base.Planner` pass the methods of every subclass through here, a user's own too. Called with numbers,
a method runs as one program, compiled once per shape; inside somebody's `jit` it is traced as it is written. Rests
beyond z_max count as z_max. `jax.disable_jit()` runs a method line by line, for debugging.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._runtime.entry_points import argument, compiled

IDLE = -1  # an arm that says: no play
INVALID = -2  # an arm that no problem accepts: what poisoned numbers become


class Round(NamedTuple):
    """What is known before a round is played."""

    t: Array  # scalar; 0, 1, 2, …; the same in every replication
    z: Array  # [K]; rounds each arm has rested
    available: Array | None = None  # [K] bool; None: all are


def prepare_policy(cls: type) -> None:
    """Every method that `cls` defines, as it is to be called."""
    _prepare(cls, _POLICY_METHODS)


def prepare_planner(cls: type) -> None:
    _prepare(cls, _PLANNER_METHODS)


def _prepare(cls: type, methods: dict[str, Callable[[Callable], Callable]]) -> None:
    for name, prepare in methods.items():
        if name in vars(cls):
            setattr(cls, name, functools.wraps(vars(cls)[name])(prepare(vars(cls)[name])))


def _plain(method: Callable) -> Callable:
    """A method of a policy that takes pytrees."""
    return _of_pytree(method, compiled(method))


def _choose(method: Callable) -> Callable:
    program = compiled(lambda self, key, state, round: method(self, key, state, _capped(self, round)))
    call = _of_pytree(method, program)
    return lambda self, key, state, round: call(self, key, state, _checked_round(self, round))


def _update(method: Callable) -> Callable:
    program = compiled(lambda self, state, round, *played: method(self, state, _capped(self, round), *played))
    call = _of_pytree(method, program)

    def update(self, state, round, arm, reward):
        round = _checked_round(self, round)
        checks.indices("arm", arm, self.num_arms, "the arms; -1: no play", minimum=IDLE)
        checks.shape("reward", reward, np.shape(arm), "that of arm")
        checks.finite("reward", reward)
        return call(self, state, round, argument(arm, np.int32), argument(reward, float))

    return update


def _of_pytree(method: Callable, program: Callable) -> Callable:
    """`program`; the method itself for an object that is no pytree, which no program can take."""

    def call(self, *arguments, **options):
        is_leaf = jax.tree_util.all_leaves((self,))
        return (method if is_leaf else program)(self, *arguments, **options)

    return call


def _checked_round(policy, round: Round) -> Round:
    if not isinstance(round, Round):
        raise TypeError(f"round must be a jaxband.Round, got {round!r}; make one: jb.Round(t=0, z=z)")
    checks.scalar("round.t", round.t)
    checks.rests("round.t", round.t)
    checks.rests("round.z", round.z)
    checks.shape("round.z", round.z, (policy.num_arms,), "[K]")
    return Round(
        argument(round.t, np.int32), argument(round.z, np.int32), _checked_mask(round.available, policy.num_arms)
    )


def _capped(policy, round: Round) -> Round:
    return round if policy.z_max is None else round._replace(z=jnp.minimum(round.z, policy.z_max))


def _plan(method: Callable) -> Callable:
    @functools.partial(compiled, static=("self", "plays", "idle"))
    def program(self, curves, z, terminal_values, available, plays, idle):
        options = {"terminal_values": terminal_values, "available": available, "plays": plays, "idle": idle}
        return method(self, curves, jnp.minimum(z, curves.shape[1] - 1), **options)

    def plan(self, curves, z, *, terminal_values=None, available=None, plays=None, idle=False):
        if plays is not None:
            remedy = f"{type(self).__name__} plans one play per round" if self.max_plays == 1 else ""
            plays = checks.integer("plays", plays, 1, self.max_plays, remedy=remedy)
        if terminal_values is not None and not self.takes_terminal_values:
            raise TypeError(f"{type(self).__name__} takes no terminal values; use planners.subset or beam")
        curves, z = _table("curves", curves, (None, None), "[K, G]"), _rests(z, curves)
        self.check(len(curves))
        if terminal_values is not None:
            terminal_values = _table("terminal_values", terminal_values, curves.shape, "[K, G]")
        return program(self, curves, z, terminal_values, _checked_mask(available, len(curves)), plays, bool(idle))

    return plan


def _plan_window(method: Callable) -> Callable:
    @functools.partial(compiled, static=("self",))
    def program(self, points, num_slots, terminal):
        return method(self, points, num_slots=num_slots, terminal=terminal)

    def plan_window(self, points, *, num_slots=None, terminal=None):
        checks.shape("points", points, (None, 2 * self.depth - 1), "[K, 2·depth − 1]")
        if terminal is not None:
            checks.shape("terminal", terminal, (len(points), self.depth + 1), "[K, depth + 1]")
            terminal = argument(terminal, float)
        return program(self, argument(points, float), num_slots, terminal)

    return plan_window


def _plan_ucb(method: Callable) -> Callable:
    @functools.partial(compiled, static=("self",))
    def program(self, mean, root, z, alpha, extra_variance, available):
        z = jnp.minimum(z, mean.shape[1] - 1)
        return method(self, mean, root, z, alpha, extra_variance=extra_variance, available=available)

    def plan_ucb(self, mean, root, z, alpha, *, extra_variance=0.0, available=None):
        mean, z = _table("mean", mean, (None, None), "[K, G]"), _rests(z, mean)
        root = _table("root", root, (*mean.shape, None), "[K, G, r]")
        self.check(len(mean))
        return program(self, mean, root, z, *_widths(alpha, extra_variance), _checked_mask(available, len(mean)))

    return plan_ucb


def _plan_ucb_window(method: Callable) -> Callable:
    @functools.partial(compiled, static=("self",))
    def program(self, mean, root, alpha, extra_variance):
        return method(self, mean, root, alpha, extra_variance=extra_variance)

    def plan_ucb_window(self, mean, root, alpha, *, extra_variance=0.0):
        checks.shape("mean", mean, (None, 2 * self.depth - 1), "[K, 2·depth − 1]")
        checks.shape("root", root, (*np.shape(mean), None), "[K, 2·depth − 1, r]")
        return program(self, argument(mean, float), argument(root, float), *_widths(alpha, extra_variance))

    return plan_ucb_window


_POLICY_METHODS = {
    "init": _plain,
    "draw": _plain,
    "choose": _choose,
    "update": _update,
    "refresh": _plain,
    "inform": _plain,
}
_PLANNER_METHODS = {
    "plan": _plan,
    "plan_window": _plan_window,
    "plan_ucb": _plan_ucb,
    "plan_ucb_window": _plan_ucb_window,
}


def _table(name: str, value, shape: tuple, letters: str) -> Array:
    checks.shape(name, value, shape, letters)
    if 0 in np.shape(value):
        raise ValueError(f"{name} must have at least one arm and one rest, got shape {list(np.shape(value))}")
    checks.finite(name, value)
    return argument(value, float)


def _rests(z, table) -> Array:
    checks.shape("z", z, np.shape(table)[:1], "[K]")
    checks.rests("z", z)
    return argument(z, np.int32)


def _widths(alpha, extra_variance) -> tuple[Array, Array]:
    """Numbers by which a plan's mean and variance are one bound."""
    checks.scalar("alpha", alpha)
    checks.finite("alpha", alpha)
    checks.non_negative("extra_variance", extra_variance)
    return argument(alpha, float), argument(extra_variance, float)


def _checked_mask(available, num_arms: int) -> Array | None:
    """`available` as an array [K] of truth values."""
    if available is None:
        return None
    checks.shape("available", available, (num_arms,), "[K]")
    available = available if isinstance(available, jax.Array) else np.asarray(available)
    if available.dtype != bool:
        raise TypeError(f"available must hold truth values, got {available.dtype}")
    return available
