"""Hyperparameters as numbers to search over.

A positive hyperparameter is θ = θ₀ e^s, one that may have any sign θ = θ₀ + s, where θ₀ is the user's value; and
s = S tanh(u / S) with u free, so that no step leaves the searched range and no kernel is ever NaN. S is ln 10⁴ for the
former and G for the latter.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband.kernels.base import Kernel
from jaxband.pytree import pytree_dataclass

LARGEST_FACTOR = 1e4  # between a positive hyperparameter and the value the search starts from
SPREAD = 0.25  # starts cover this share of the searched range: a factor of 10 either way


@pytree_dataclass(static=("structure", "names", "signed", "learn_noise"))
class Space:
    """The P hyperparameters as numbers s [P], 0 at the user's values."""

    structure: jax.tree_util.PyTreeDef
    names: tuple[str, ...]
    signed: tuple[bool, ...]
    learn_noise: bool
    centre: Array  # [P]
    ranges: Array  # [P]; |s| stays below
    noise: Array  # where it is not learned

    def model(self, s: Array) -> tuple[Kernel, Array]:
        """Kernel and noise at s."""
        values = [self.value(index, s[index]) for index in range(len(self.names))]
        noise = values.pop() if self.learn_noise else self.noise
        return jax.tree.unflatten(self.structure, values), noise

    def value(self, index: int, s: Array) -> Array:
        centre = self.centre[index]
        return centre + s if self.signed[index] else centre * jnp.exp(s)

    def inside(self, u: Array) -> Array:
        """s at the search's free variable u."""
        return self.ranges * jnp.tanh(u / self.ranges)


def space_around(kernel: Kernel, noise: float, num_points: int, learn_noise: bool) -> Space:
    """The hyperparameters of `kernel`, and the noise if it is learned, around the values given."""
    leaves = jax.tree_util.tree_flatten_with_path(kernel)[0]
    names = [jax.tree_util.keystr(path).removeprefix(".") for path, _ in leaves]
    values = [leaf for _, leaf in leaves]
    signed = [_is_signed(kernel, path) for path, _ in leaves]
    if learn_noise:
        names, values, signed = names + ["noise"], values + [noise], signed + [False]
    for name, value, any_sign in zip(names, values, signed, strict=True):
        checks.scalar(name, value)
        (checks.finite if any_sign else checks.positive)(name, value)
    return Space(
        structure=jax.tree.structure(kernel),
        names=tuple(names),
        signed=tuple(signed),
        learn_noise=learn_noise,
        centre=np.array(values, np.float64),
        ranges=np.where(signed, float(num_points), np.log(LARGEST_FACTOR)),
        noise=np.float64(noise),
    )


def _is_signed(kernel: Kernel, path: tuple) -> bool:
    """May the hyperparameter at `path` have any sign?"""
    *owners, last = (key.name for key in path)
    return last in functools.reduce(getattr, owners, kernel).signed


def latin_hypercube(rng: np.random.Generator, num_starts: int, ranges: np.ndarray) -> np.ndarray:
    """A Latin hypercube [num_starts, P] within SPREAD of the ranges, its first point moved to 0."""
    strata = rng.permuted(np.tile(np.arange(num_starts), (len(ranges), 1)), axis=1).T
    starts = SPREAD * ranges * (2.0 * (strata + rng.random(strata.shape)) / num_starts - 1.0)
    starts[0] = 0.0
    return starts


def models(space: Space, values: np.ndarray, noise: float, shared: bool):
    """Kernel and noise from values [groups, P]: one of each, or one per arm."""
    rows = values.tolist()
    noises = [row.pop() for row in rows] if space.learn_noise else float(noise)
    kernels = [jax.tree.unflatten(space.structure, row) for row in rows]
    if shared:
        return kernels[0], noises[0] if space.learn_noise else noises
    return kernels, np.array(noises) if space.learn_noise else noises
