"""The problem: recovery curves, noise, who can be played, and how rests evolve (section 3 of the paper).

Z_j ← 0 for the played arm, min(z_max, Z_j + 1) for the others;   reward = f_J(Z_J) + σ ε.

The dynamics and the reward are written here and nowhere else.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from jaxband import checks
from jaxband._compiled import prng
from jaxband._compiled.batching import take_per_row
from jaxband._runtime.entry_points import argument, compiled
from jaxband.base import IDLE
from jaxband.pytree import pytree_dataclass


@pytree_dataclass(static=("plays", "idle"))
class Problem:
    """A recovering bandit.

    `curves` is a table [K, G], the same in every replication, or a function key -> table that draws new ones for
    each (Bayesian regret). Wrap such a function's numbers in `jax.tree_util.Partial` if you sweep over them: then
    they do not recompile. With `plays` = m, m different arms are played per round. With `idle`, a round may pass
    without a play. `available` says who can be played: probabilities [K], or a function (key, t, z) -> [K] bool.

    >>> problem = Problem([[0.0, 0.5, 1.0], [0.2, 0.3, 0.3]], noise=0.1)
    >>> problem.num_arms, problem.z_max
    (2, 2)
    """

    curves: Array | Callable[[Array], Array]
    noise: float | Array = 0.1  # standard deviation of a reward
    z_init: int | Array = 0  # rounds each arm has rested when play begins: one number or [K]
    plays: int | None = None  # None: one, and `arm` is a scalar; m, also 1: `arm` is [m]
    idle: bool = False
    available: Array | Callable | None = None

    def __post_init__(self):
        if callable(self.curves):
            self._set("curves", self.curves if isinstance(self.curves, Partial) else Partial(self.curves))
        else:
            checks.finite("curves", self.curves)
            self._set("curves", jnp.asarray(self.curves, dtype=float))
        checks.shape("curves", self.table_shape, (None, None), "[K, G]")
        if 0 in self.table_shape.shape:
            what = f"got shape {list(self.table_shape.shape)}"
            raise ValueError(f"curves must have at least one arm and one rest, {what}")
        checks.scalar("noise", self.noise)
        checks.non_negative("noise", self.noise)
        checks.indices("z_init", self.z_init, self.z_max + 1, "0..z_max")
        if np.ndim(self.z_init):
            checks.shape("z_init", self.z_init, (self.num_arms,), "[K]")
        self._set("noise", jnp.asarray(self.noise, dtype=float))
        self._set("z_init", _broadcast(self.z_init, self.num_arms))
        if self.plays is not None:
            self._set("plays", checks.integer("plays", self.plays, 1, self.num_arms))
        self._set("idle", bool(self.idle))
        if callable(self.available):
            self._set("available", self.available if isinstance(self.available, Partial) else Partial(self.available))
        elif self.available is not None:
            checks.shape("available", self.available, (self.num_arms,), "[K]")
            checks.probabilities("available", self.available)
            self._set("available", jnp.asarray(self.available, dtype=float))

    def _set(self, name: str, value) -> None:
        object.__setattr__(self, name, value)

    @functools.cached_property
    def table_shape(self) -> jax.ShapeDtypeStruct:
        return jax.eval_shape(self.draw, jax.random.key(0))

    @property
    def num_arms(self) -> int:
        return self.table_shape.shape[0]

    @property
    def z_max(self) -> int:
        return self.table_shape.shape[1] - 1

    @property
    def may_idle(self) -> bool:
        """Can a round pass without a play, by choice or because too few arms are available?"""
        return self.idle or self.available is not None

    def draw(self, key: Array) -> Array:
        """This replication's curves, [K, G]."""
        return self.curves(key) if callable(self.curves) else self.curves

    def given(self, curves: Array | None) -> "Problem":
        """The same problem with a table in place of what draws its curves; None: still to be given."""
        copy = object.__new__(Problem)
        for field in dataclasses.fields(Problem):
            copy._set(field.name, curves if field.name == "curves" else getattr(self, field.name))
        return copy

    def who_is_available(self, key: Array, t: Array, z: Array) -> Array | None:
        """[K] bool in round t; None if all arms always are."""
        if self.available is None:
            return None
        key = prng.fold_in(key, t)
        if callable(self.available):
            return jnp.asarray(self.available(key, t, z), bool)
        return jax.random.uniform(key, (self.num_arms,)) < self.available


def next_z(z: Array, arm: Array, z_max: int) -> Array:
    """The rests one round later, [K]: 0 for the played arm or arms, one more for the others, at most `z_max`.

    >>> next_z([3, 0, 4], arm=1, z_max=4).tolist()
    [4, 0, 4]
    """
    z_max = checks.integer("z_max", z_max, minimum=0)
    checks.rests("z", z)
    checks.shape("z", z, (None,), "[K]")
    checks.indices("arm", arm, np.shape(z)[0], "the arms; -1: no play", minimum=IDLE)
    return _rests_after(argument(z, np.int32), argument(arm, np.int32), z_max)


def rests_after(z: Array, arm: Array, z_max: int) -> Array:
    """`next_z` without checks, for compiled loops."""
    arms = jnp.arange(z.shape[0], dtype=jnp.int32)
    arm = jnp.asarray(arm, jnp.int32)
    played = arms == arm if arm.ndim == 0 else jnp.any(arms[:, None] == arm[None, :], axis=1)
    return jnp.where(played, 0, jnp.minimum(z + 1, z_max))


_rests_after = compiled(rests_after)


def _broadcast(z_init, num_arms: int) -> Array:
    """First rests as [K]; on the host if they are known, so that nothing is compiled."""
    library = jnp if isinstance(z_init, jax.core.Tracer) else np
    return jnp.asarray(library.broadcast_to(library.asarray(z_init, dtype=np.int32), (num_arms,)))


def expected_rewards(curves: Array, z: Array) -> Array:
    """f_j(Z_j) of every arm, [K]."""
    return take_per_row(curves, z)


def reward_of(curves: Array, noise: Array, z: Array, arm: Array, shock: Array, may_idle: bool) -> Array:
    """f_J(Z_J) + σ ε of the played arm or arms, in the shape of `arm`; no play pays 0."""
    reward = curves[arm, z[arm]] + noise * shock
    return jnp.where(arm == IDLE, 0.0, reward) if may_idle else reward


def is_legal(problem: Problem, arm: Array, available: Array | None) -> Array:
    """Can `arm` (a scalar, or [m]) be played? Out of range, repeated, out of order or unavailable ones cannot."""
    num_arms, arms = problem.num_arms, jnp.atleast_1d(arm)
    play = (arms >= 0) & (arms < num_arms)
    if available is not None:
        play = play & available[jnp.clip(arms, 0, num_arms - 1)]
    rest = jnp.zeros_like(play)
    if problem.idle:
        rest = arms == IDLE
    elif available is not None:  # as many as are missing, and no more
        missing = len(arms) - jnp.sum(available, dtype=jnp.int32)
        rest = (arms == IDLE) & (jnp.sum(arms == IDLE, dtype=jnp.int32) <= missing)
    legal = jnp.all(play | rest)
    if len(arms) > 1:
        rising = (arms[1:] > arms[:-1]) | (arms[1:] == IDLE)
        legal = legal & jnp.all(rising & ~((arms[:-1] == IDLE) & (arms[1:] != IDLE)))
    return legal
