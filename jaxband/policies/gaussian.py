"""What the Gaussian-process policies share: a posterior as state, its update, and the checks of their arguments."""

import jax
from jax import Array

from jaxband import checks, posterior
from jaxband.base import Planner
from jaxband.planners import windows
from jaxband.posterior import Posterior


class GaussianPolicy:
    """A policy whose state is the posterior of all curves. Subclasses are records with these fields, and `propose`."""

    prior: Posterior
    noise: Array  # standard deviation the posterior assumes
    warm_up: Array
    planner: Planner
    commit: int

    @property
    def num_arms(self) -> int:
        return self.prior.counts.shape[0]

    @property
    def z_max(self) -> int:
        return self.prior.counts.shape[1] - 1

    @property
    def depth(self) -> int:
        return self.planner.depth

    def init(self, key: Array) -> Posterior:
        return self.prior

    def plan(self, key: Array, state: Posterior, z: Array, t: Array) -> Array:
        return self.propose(key, state, z, t).arms[: self.commit]

    def reach(self, state: Posterior, z: Array) -> tuple[Array, Array]:
        """Mean [K, 2d − 1] and root [K, 2d − 1, r] at the points within reach."""
        rests = windows.rests(z, self.depth, self.z_max)
        return jax.numpy.take_along_axis(state.mean, rests, axis=1), posterior.root_at(state, rests)

    def update(self, state: Posterior, arm: Array, z: Array, reward: Array) -> Posterior:
        return posterior.observe(state, arm, z, reward, self.noise, compensate=False)

    def refresh(self, state: Posterior) -> Posterior:
        return posterior.refresh(state, self.noise)


def check_arguments(num_arms: int, noise, planner: Planner, commit: int | None, warm_up: int) -> int:
    """The number of plays between plans, after checking what all policies with a posterior take."""
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    planner.check(num_arms)
    checks.whole_number("warm_up", warm_up, minimum=0)
    return check_commit(commit, planner.depth)


def check_commit(commit: int | None, depth: int) -> int:
    """`commit`, or the whole plan if it is None."""
    if commit is None:
        return depth
    return checks.whole_number("commit", commit, 1, depth, remedy="a plan is as long as its planner's depth")


def as_number(value) -> Array:
    return jax.numpy.asarray(value, dtype=float)


def as_count(value: int) -> Array:
    return jax.numpy.asarray(value, dtype=jax.numpy.int32)
