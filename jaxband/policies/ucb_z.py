"""UCB-Z: every (arm, rest) pair is an arm of its own (appendix "Regret Bounds for Non-Parametric Approach").

First every pair is visited: for each arm in turn, for each rest not yet seen of it, random other arms are played
until it has rested that long, then it is played (an arm that has already rested longer is played too, which resets
it). Then argmax_j Ȳ + √(σ² (2 + 6 ln T) / N) over each arm's current pair, +∞ for a pair never visited.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxband import checks
from jaxband.base import record
from jaxband.policies.gaussian import as_number


def ucb_z(num_arms: int, z_max: int, noise: float, *, horizon: int) -> "UcbZ":
    """The baseline without structure; its initialisation alone takes on the order of K·G²/2 rounds.

    >>> ucb_z(num_arms=10, z_max=30, noise=0.1, horizon=1000).init(jax.random.key(0)).counts.shape
    (10, 31)
    """
    num_arms = checks.whole_number("num_arms", num_arms, minimum=1)
    z_max = checks.whole_number("z_max", z_max, minimum=0)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    checks.whole_number("horizon", horizon, minimum=1)
    return UcbZ(as_number(noise), as_number(horizon), num_arms, z_max)


class Visits(NamedTuple):
    counts: Array  # [K, G]
    sums: Array  # [K, G]; rewards seen at each pair


@record("num_arms", "z_max")
class UcbZ:
    noise: Array
    horizon: Array
    num_arms: int
    z_max: int

    depth = commit = 1
    warm_up = 0

    def init(self, key: Array) -> Visits:
        zeros = jnp.zeros((self.num_arms, self.z_max + 1))
        return Visits(zeros, zeros)

    def plan(self, key: Array, state: Visits, z: Array, t: Array) -> Array:
        unseen = state.counts == 0
        arm = jnp.where(
            jnp.any(unseen), self._visit(key, unseen, z), jnp.argmax(self._bounds(state, z)).astype(z.dtype)
        )
        return arm[None]

    def _visit(self, key: Array, unseen: Array, z: Array) -> Array:
        """The next play on the way to the first unseen pair."""
        wanted_arm = jnp.argmax(jnp.any(unseen, axis=1)).astype(z.dtype)
        wanted_z = jnp.argmax(unseen[wanted_arm]).astype(z.dtype)
        others = max(self.num_arms - 1, 1)
        other = (wanted_arm + 1 + jax.random.randint(key, (), 0, others, z.dtype)) % self.num_arms
        return jnp.where(z[wanted_arm] < wanted_z, other, wanted_arm)

    def _bounds(self, state: Visits, z: Array) -> Array:
        arms = jnp.arange(self.num_arms)
        counts, sums = state.counts[arms, z], state.sums[arms, z]
        width = self.noise * jnp.sqrt((2.0 + 6.0 * jnp.log(self.horizon)) / counts)
        return jnp.where(counts > 0, sums / counts + width, jnp.inf)

    def update(self, state: Visits, arm: Array, z: Array, reward: Array) -> Visits:
        return Visits(state.counts.at[arm, z].add(1.0), state.sums.at[arm, z].add(reward))
