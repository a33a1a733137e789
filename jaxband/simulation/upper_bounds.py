"""What no policy can exceed in expectation, replication by replication: a property of the curves alone.

It is made by a program of its own, once per problem and seed, and not in every policy's program.
"""

from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh

from jaxband import optimum
from jaxband.problem import Problem
from jaxband.simulation import curves

CHUNK = 256  # replications per call


class UpperBounds(NamedTuple):
    """Of some replications, [n] each, in float64."""

    average: np.ndarray  # per round in the long run
    head_start: np.ndarray  # what the first rests can add

    def at(self, rounds) -> np.ndarray:
        """The bound on the total of so many rounds, [n], or [n, C] for rounds [C]."""
        if np.ndim(rounds) == 0:
            return rounds * self.average + self.head_start
        return np.asarray(rounds)[None, :] * self.average[:, None] + self.head_start[:, None]


def check_bounded(problem: Problem) -> None:
    """Refuse problems for which there is no certified bound."""
    if problem.plays not in (None, 1) or problem.may_idle:
        raise ValueError("upper_bound must be False for problems with several plays per round, idle rounds or masks")


def upper_bounds(problem: Problem, seed: int, start: int, stop: int) -> UpperBounds:
    """The bounds of replications start … stop − 1."""
    check_bounded(problem)
    if not callable(problem.curves):  # the same in all of them
        average, head_start = (float(x) for x in _bound_of(problem.curves, problem.z_init))
        return UpperBounds(np.full(stop - start, average), np.full(stop - start, head_start))
    parts, draw, mesh = [], curves.make_draw(problem, seed), Mesh(np.array(jax.local_devices()[:1]), ("works",))
    for batch in range(start // CHUNK, -(-stop // CHUNK)):
        drawn = curves.draw([draw], np.array([batch], np.int32), np.ones(1, np.int32), CHUNK, 1, mesh)
        rows = slice(max(start - batch * CHUNK, 0), stop - batch * CHUNK)
        bounds = _bounds_of(drawn.curves[0], problem.z_init)
        parts.append([np.asarray(x, np.float64)[rows] for x in bounds])
    return UpperBounds(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@jax.jit
def _bounds_of(tables: Array, z_init: Array) -> tuple[Array, Array]:
    return jax.vmap(lambda table: _bound_of(table, z_init))(tables)


@jax.jit
def _bound_of(table: Array, z_init: Array) -> tuple[Array, Array]:
    bound = optimum.dual_bound(table)
    return bound.average, optimum.head_start(bound, z_init)
