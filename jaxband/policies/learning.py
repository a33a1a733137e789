"""Policies that learn the kernel as they play: how fast curves recover and how high they reach.

The shape of the kernel is given; a stretch of the rest axis (a lengthscale, for most kernels) and a factor on the
variance are learned, for all arms together, on a grid of half octaves. Every `learn_every` blocks, and more often while
there are few, the evidence of the present kernel (`posterior.evidence`: from counts and sums alone) is compared with
that of others near it on the grid, the best is moved to, and mean and root are rebuilt under the new prior. A weak
prior keeps the first few rewards from deciding: stretch and factor are taken to be right within two octaves.

Mean and root are never rebuilt with a smaller variance than the given one: a policy that is surer of what it has not
tried would not try it, and could not find out that it is wrong. The factor is learned all the same, because the stretch
would make up for a wrong one.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks, posterior
from jaxband.base import Plan, Planner, record
from jaxband.kernels.base import Kernel, Stretched
from jaxband.policies.gaussian import GaussianPolicy
from jaxband.posterior import Posterior

STEPS_PER_OCTAVE = 2
OCTAVES = 3  # stretches from 1/8 to 8
PRIOR_OCTAVES = 2.0  # standard deviation, of stretch and of factor
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (-3, 0), (3, 0), (0, -3), (0, 3))  # in (stretch, factor)
GROWTH = 1.25  # of the number of blocks, from one fit to the next at the beginning


def learning(
    policy: GaussianPolicy, kernel: Kernel | Sequence[Kernel], z_max, every: int | None
) -> "GaussianPolicy | Learning":
    """`policy`, made to learn its kernel after every so many blocks; unchanged for None."""
    if every is None:
        return policy
    every = checks.whole_number("learn", every, minimum=1)
    kernels = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel] * policy.num_arms
    stretches = 2.0 ** (np.arange(-OCTAVES * STEPS_PER_OCTAVE, OCTAVES * STEPS_PER_OCTAVE + 1) / STEPS_PER_OCTAVE)
    columns = [_prior_columns(kernels, stretch, z_max) for stretch in stretches]
    rank = max(c.shape[1] for c in columns)
    columns = [jnp.pad(c, ((0, 0), (0, rank - c.shape[1]), (0, 0))) for c in columns]
    middle = len(columns) // 2
    blank = policy.prior._replace(
        columns=columns[middle], prior_columns=columns[middle], columns_error=jnp.zeros_like(columns[middle])
    )
    return Learning(dataclasses.replace(policy, prior=blank), jnp.stack(columns), every)


def _prior_columns(kernels: list[Kernel], stretch: float, z_max) -> Array:
    """[K, r, H] of the stretched kernels."""
    stretched = {id(k): Stretched(k, float(stretch)) for k in kernels}
    same = len(stretched) == 1
    kernel = stretched[id(kernels[0])] if same else [stretched[id(k)] for k in kernels]
    return posterior.prior(kernel, len(kernels), z_max).columns


class Learned(NamedTuple):
    posterior: Posterior
    stretch: Array  # steps on the grid; 0 is the kernel as given
    factor: Array  # steps of the variance


@record("learn_every")
class Learning:
    """Another policy, with a kernel that follows the data."""

    policy: GaussianPolicy
    columns: Array  # [stretches, K, r, H]; prior columns
    learn_every: int  # blocks

    @property
    def num_arms(self) -> int:
        return self.policy.num_arms

    @property
    def z_max(self) -> int:
        return self.policy.z_max

    @property
    def planner(self) -> Planner:
        return self.policy.planner

    @property
    def depth(self) -> int:
        return self.policy.depth

    @property
    def commit(self) -> int:
        return self.policy.commit

    @property
    def warm_up(self) -> Array:
        return self.policy.warm_up

    def init(self, key: Array) -> Learned:
        return Learned(self.policy.init(key), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def plan(self, key: Array, state: Learned, z: Array, t: Array) -> Array:
        return self.policy.plan(key, state.posterior, z, t)

    def propose(self, key: Array, state: Learned, z: Array, t: Array) -> Plan:
        return self.policy.propose(key, state.posterior, z, t)

    def update(self, state: Learned, arm: Array, z: Array, reward: Array) -> Learned:
        return state._replace(posterior=self.policy.update(state.posterior, arm, z, reward))

    def refresh(self, state: Learned) -> Learned:
        return state._replace(posterior=self.policy.refresh(state.posterior))

    def stretch(self, state: Learned) -> Array:
        """How many times as slow as the given kernel the curves now seem to be."""
        return _octaves(state.stretch)

    def variance_factor(self, state: Learned) -> Array:
        """How many times as large as the given kernel's the variance now seems to be."""
        return _octaves(state.factor)

    def learns_after(self, blocks: Array) -> Array:
        """Is the kernel to be fitted again after so many blocks?"""
        regular = (blocks > 0) & (blocks % self.learn_every == 0)
        return regular | jnp.any(blocks == early_fits(self.learn_every))

    def relearn(self, state: Learned) -> Learned:
        """The state after the best of some moves on the grid, its posterior rebuilt."""
        moves = jnp.asarray(MOVES, jnp.int32)
        limit = OCTAVES * STEPS_PER_OCTAVE
        stretches = jnp.clip(state.stretch + moves[:, 0], -limit, limit)
        factors = jnp.clip(state.factor + moves[:, 1], -2 * limit, 2 * limit)
        best = jnp.argmax(jax.lax.map(lambda move: self._score(state.posterior, *move), (stretches, factors)))
        stretch, factor = stretches[best], factors[best]
        rebuilt = self.policy.refresh(self._under(state.posterior, stretch, jnp.maximum(factor, 0)))
        return Learned(rebuilt, stretch, factor)

    def _score(self, belief: Posterior, stretch: Array, factor: Array) -> Array:
        steps = jnp.stack([stretch, factor]).astype(float) / (STEPS_PER_OCTAVE * PRIOR_OCTAVES)
        return posterior.evidence(self._under(belief, stretch, factor), self.policy.noise) - 0.5 * jnp.sum(steps**2)

    def _under(self, belief: Posterior, stretch: Array, factor: Array) -> Posterior:
        """The same data under another prior; mean and root still to be rebuilt."""
        columns = self.columns[stretch + OCTAVES * STEPS_PER_OCTAVE]
        return belief._replace(prior_columns=columns * jnp.sqrt(_octaves(factor)))


def early_fits(every: int) -> np.ndarray:
    """The numbers of blocks after which a kernel is fitted out of turn, until these are `every` blocks apart."""
    steps = np.arange(math.log(every / (GROWTH - 1.0), GROWTH))
    return np.unique(np.ceil(GROWTH**steps)).astype(np.int32)


def _octaves(steps: Array) -> Array:
    return jnp.exp2(steps.astype(float) / STEPS_PER_OCTAVE)
