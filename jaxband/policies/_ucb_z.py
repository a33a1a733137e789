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
from jaxband.base import Policy, Round
from jaxband.planners.greedy import best_arm
from jaxband.policies.arguments import as_number
from jaxband.pytree import pytree_dataclass
from jaxband.registry import Cost, register


def _cost(values) -> Cost:
    return Cost(0.1 + values["num_arms"] * (0.015 + 0.003 * (values["z_max"] + 1)), 4.0)


@register("policy", label="UCB-Z", cost=_cost, told=("noise", "horizon"))
def ucb_z(num_arms: int, z_max: int, noise: float, *, horizon: int) -> "UcbZ":
    """The baseline without structure; its initialisation alone takes on the order of K·G²/2 rounds.

    >>> ucb_z(num_arms=10, z_max=30, noise=0.1, horizon=1000).init(jax.random.key(0)).counts.shape
    (10, 31)
    """
    num_arms = checks.integer("num_arms", num_arms, minimum=1)
    z_max = checks.integer("z_max", z_max, minimum=0)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    checks.integer("horizon", horizon, minimum=1)
    return UcbZ(as_number(noise), as_number(horizon), num_arms, z_max)


class UcbZState(NamedTuple):
    counts: Array  # [K, G]
    sums: Array  # [K, G]; rewards seen at each pair


@pytree_dataclass(static=("num_arms", "z_max"))
class UcbZ(Policy):
    noise: Array
    horizon: Array
    num_arms: int
    z_max: int

    def init(self, key: Array) -> UcbZState:
        zeros = jnp.zeros((self.num_arms, self.z_max + 1))
        return UcbZState(zeros, zeros)

    def choose(self, key: Array, state: UcbZState, round: Round) -> tuple[Array, UcbZState]:
        z, unseen = round.z, state.counts == 0
        best = best_arm(self._bounds(state, z), round.available).arms[0]
        arm = jnp.where(jnp.any(unseen), self._visit(key, unseen, z), best)
        if round.available is not None:  # the pair must wait
            arm = jnp.where(round.available[arm], arm, best)
        return arm, state

    def _visit(self, key: Array, unseen: Array, z: Array) -> Array:
        """The next play on the way to the first unseen pair."""
        wanted_arm = jnp.argmax(jnp.any(unseen, axis=1)).astype(jnp.int32)
        wanted_z = jnp.argmax(unseen[wanted_arm]).astype(z.dtype)
        others = max(self.num_arms - 1, 1)
        other = (wanted_arm + 1 + jax.random.randint(key, (), 0, others, jnp.int32)) % self.num_arms
        return jnp.where(z[wanted_arm] < wanted_z, other, wanted_arm)

    def _bounds(self, state: UcbZState, z: Array) -> Array:
        arms = jnp.arange(self.num_arms)
        counts, sums = state.counts[arms, z], state.sums[arms, z]
        width = self.noise * jnp.sqrt((2.0 + 6.0 * jnp.log(self.horizon)) / counts)
        return jnp.where(counts > 0, sums / counts + width, jnp.inf)

    def update(self, state: UcbZState, round: Round, arm: Array, reward: Array) -> UcbZState:
        z, played = round.z[arm], jnp.where(arm >= 0, 1.0, 0.0)
        return UcbZState(state.counts.at[arm, z].add(played), state.sums.at[arm, z].add(played * reward))
