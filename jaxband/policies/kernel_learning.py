"""Policies that learn the kernel as they play: how fast curves recover and how high they reach.

The shape of the kernel is given; a stretch of the rest axis (a lengthscale, for most kernels) and a scale of the
variance are learned, for all arms together, on a grid of half octaves. Every `refit_every` blocks, and more often while
there are few, the evidence of the present kernel (`posterior.log_evidence`: from counts and sums alone) is compared
with that of others near it on the grid, the best is moved to, and mean and root are rebuilt under the new prior. A weak
prior keeps the first few rewards from deciding: stretch and scale are taken to be right within two octaves.

Mean and root are never rebuilt with a smaller variance than the given one: a policy that is surer of what it has not
tried would not try it, and could not find out that it is wrong. The scale is learned all the same, because the stretch
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
from jaxband.base import Plan, Policy, Round
from jaxband.kernels.base import Kernel, Stretched
from jaxband.policies.planning import PosteriorPolicy
from jaxband.posterior import Posterior
from jaxband.pytree import pytree_dataclass

STEPS_PER_OCTAVE = 2
OCTAVES = 3  # stretches from 1/8 to 8
PRIOR_OCTAVES = 2.0  # standard deviation, of stretch and of scale
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (-3, 0), (3, 0), (0, -3), (0, 3))  # in (stretch, variance)
GROWTH = 1.25  # of the number of blocks, from one fit to the next at the beginning


def with_kernel_learning(
    policy: PosteriorPolicy, kernel: Kernel | Sequence[Kernel], z_max, refit_every: int | None
) -> Policy:
    """`policy`, made to fit its kernel again after every so many blocks; unchanged for None."""
    if refit_every is None:
        return policy
    refit_every = checks.integer("refit_every", refit_every, minimum=1)
    kernels = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel] * policy.num_arms
    stretches = 2.0 ** (np.arange(-OCTAVES * STEPS_PER_OCTAVE, OCTAVES * STEPS_PER_OCTAVE + 1) / STEPS_PER_OCTAVE)
    columns = [_prior_columns(kernels, stretch, z_max) for stretch in stretches]
    rank = max(c.shape[1] for c in columns)
    columns = [jnp.pad(c, ((0, 0), (0, rank - c.shape[1]), (0, 0))) for c in columns]
    middle = len(columns) // 2
    blank = policy.prior._replace(
        columns=columns[middle], prior_columns=columns[middle], columns_error=jnp.zeros_like(columns[middle])
    )
    return KernelLearning(dataclasses.replace(policy, prior=blank), jnp.stack(columns), refit_every)


def _prior_columns(kernels: list[Kernel], stretch: float, z_max) -> Array:
    """[K, r, H] of the stretched kernels."""
    stretched = {id(k): Stretched(k, float(stretch)) for k in kernels}
    same = len(stretched) == 1
    kernel = stretched[id(kernels[0])] if same else [stretched[id(k)] for k in kernels]
    return posterior.prior(kernel, len(kernels), z_max).columns


class KernelLearningState(NamedTuple):
    posterior: Posterior
    plan: Plan
    stretch: Array  # steps on the grid; 0 is the kernel as given
    variance_steps: Array  # the same of the variance


@pytree_dataclass(static=("refit_every",))
class KernelLearning(Policy):
    """Another policy, with a kernel that follows the data."""

    policy: PosteriorPolicy
    columns: Array  # [stretches, K, r, H]; prior columns
    refit_every: int  # blocks

    @property
    def num_arms(self) -> int:
        return self.policy.num_arms

    @property
    def z_max(self) -> int:
        return self.policy.z_max

    def init(self, key: Array) -> KernelLearningState:
        return KernelLearningState(*self.policy.init(key), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def choose(self, key, state: KernelLearningState, round: Round) -> tuple[Array, KernelLearningState]:
        state = jax.lax.cond(self.refit_due(round.t), self.refit_kernel, lambda state: state, state)
        return self.policy.choose(key, state, round)

    def update(self, state: KernelLearningState, round: Round, arm: Array, reward: Array) -> KernelLearningState:
        return self.policy.update(state, round, arm, reward)

    def draw(self, key: Array, rounds: Array):
        return self.policy.draw(key, rounds)

    def refresh(self, state: KernelLearningState) -> KernelLearningState:
        return self.policy.refresh(state)

    def describe(self, state: KernelLearningState) -> dict[str, Array]:
        learned = {"stretch": self.stretch(state), "variance_scale": self.variance_scale(state)}
        return self.policy.describe(state) | learned

    def title(self) -> str:
        return self.policy.title()

    def begin_at(self, first_round: int) -> Policy:
        return dataclasses.replace(self, policy=self.policy.begin_at(first_round))

    def stretch(self, state: KernelLearningState) -> Array:
        """How many times as slow as the given kernel the curves now seem to be."""
        return _octaves(state.stretch)

    def variance_scale(self, state: KernelLearningState) -> Array:
        """How many times as large as the given kernel's the variance now seems to be."""
        return _octaves(state.variance_steps)

    def refit_due(self, t: Array) -> Array:
        """Is the kernel to be fitted again before the choice in round t?"""
        played = jnp.asarray(t, jnp.int32) - self.policy.first_round
        blocks = played // self.policy.replan_every
        regular = (blocks > 0) & (blocks % self.refit_every == 0)
        early = jnp.any(blocks == early_fits(self.refit_every))
        return (played >= 0) & (played % self.policy.replan_every == 0) & (regular | early)

    def refit_kernel(self, state: KernelLearningState) -> KernelLearningState:
        """The state after the best of some moves on the grid, its posterior rebuilt."""
        moves = jnp.asarray(MOVES, jnp.int32)
        limit = OCTAVES * STEPS_PER_OCTAVE
        stretches = jnp.clip(state.stretch + moves[:, 0], -limit, limit)
        scales = jnp.clip(state.variance_steps + moves[:, 1], -2 * limit, 2 * limit)
        best = jnp.argmax(jax.lax.map(lambda move: self._score(state.posterior, *move), (stretches, scales)))
        stretch, scale = stretches[best], scales[best]
        rebuilt = posterior.refresh(self._under(state.posterior, stretch, jnp.maximum(scale, 0)), self.policy.noise)
        return state._replace(posterior=rebuilt, stretch=stretch, variance_steps=scale)

    def _score(self, belief: Posterior, stretch: Array, scale: Array) -> Array:
        steps = jnp.stack([stretch, scale]).astype(float) / (STEPS_PER_OCTAVE * PRIOR_OCTAVES)
        evidence = posterior.log_evidence(self._under(belief, stretch, scale), self.policy.noise)
        return evidence - 0.5 * jnp.sum(steps**2)

    def _under(self, belief: Posterior, stretch: Array, scale: Array) -> Posterior:
        """The same data under another prior; mean and root still to be rebuilt."""
        columns = self.columns[stretch + OCTAVES * STEPS_PER_OCTAVE]
        return belief._replace(prior_columns=columns * jnp.sqrt(_octaves(scale)))


def early_fits(refit_every: int) -> np.ndarray:
    """The numbers of blocks after which a kernel is fitted out of turn, until these are `refit_every` blocks apart."""
    steps = np.arange(math.log(refit_every / (GROWTH - 1.0), GROWTH))
    return np.unique(np.ceil(GROWTH**steps)).astype(np.int32)


def _octaves(steps: Array) -> Array:
    return jnp.exp2(steps.astype(float) / STEPS_PER_OCTAVE)
