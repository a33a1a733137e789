"""The problem: recovery curves, noise, and how rests evolve (section 3 of the paper).

Z_j ← 0 for the played arm, min(z_max, Z_j + 1) for the others;   reward = f_J(Z_J) + σ ε.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from jaxband import checks
from jaxband.base import record
from jaxband.lanes import of_each_row


@record()
class Problem:
    """A recovering bandit.

    `curves` is a table [K, G], the same in every replication, or a function key -> table that draws new ones for
    each (Bayesian regret). Wrap such a function's numbers in `jax.tree_util.Partial` if you sweep over them: then
    they do not recompile.

    >>> problem = Problem([[0.0, 0.5, 1.0], [0.2, 0.3, 0.3]], noise=0.1)
    >>> problem.num_arms, problem.z_max
    (2, 2)
    """

    curves: Array | Callable[[Array], Array]
    noise: float = 0.1  # standard deviation of a reward
    z_init: Array = 0  # rounds each arm has rested when play begins: one number or [K]

    def __post_init__(self):
        if callable(self.curves):
            object.__setattr__(
                self, "curves", self.curves if isinstance(self.curves, Partial) else Partial(self.curves)
            )
        else:
            checks.finite("curves", self.curves)
            object.__setattr__(self, "curves", jnp.asarray(self.curves, dtype=float))
        checks.shape("curves", self.table_shape, (None, None), "[K, G]")
        if 0 in self.table_shape.shape:
            raise ValueError(
                f"curves must have at least one arm and one rest, got shape {list(self.table_shape.shape)}"
            )
        checks.scalar("noise", self.noise)
        checks.non_negative("noise", self.noise)
        checks.indices("z_init", self.z_init, self.z_max + 1, "0..z_max")
        if np.ndim(self.z_init):
            checks.shape("z_init", self.z_init, (self.num_arms,), "[K]")
        object.__setattr__(self, "noise", jnp.asarray(self.noise, dtype=float))
        z_init = jnp.broadcast_to(jnp.asarray(self.z_init, dtype=jnp.int32), (self.num_arms,))
        object.__setattr__(self, "z_init", z_init)

    @functools.cached_property
    def table_shape(self) -> jax.ShapeDtypeStruct:
        return jax.eval_shape(self.draw, jax.random.key(0))

    @property
    def num_arms(self) -> int:
        return self.table_shape.shape[0]

    @property
    def z_max(self) -> int:
        return self.table_shape.shape[1] - 1

    def draw(self, key: Array) -> Array:
        """This replication's curves, [K, G]."""
        return self.curves(key) if callable(self.curves) else self.curves


def step(z: Array, arm: Array, z_max: int) -> Array:
    """The rests one round later, [K]."""
    arms = jnp.arange(z.shape[0], dtype=jnp.int32)
    return jnp.where(arms == jnp.asarray(arm, jnp.int32), 0, jnp.minimum(z + 1, z_max))


def expected_rewards(curves: Array, z: Array) -> Array:
    """f_j(Z_j) of every arm, [K]."""
    return of_each_row(curves, z)
