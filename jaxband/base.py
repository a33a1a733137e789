"""The vocabulary: what the letters mean, which symbol of the paper is which name, and the contracts.

======  ==============================================  =====================  ====================================
letter  meaning                                         paper                  code
======  ==============================================  =====================  ====================================
K       number of arms                                  Z_{j,t}                ``z[j]``, rounds arm j has rested
G       grid points, z_max + 1                          f_j(z)                 ``curves[j, z]``
d       depth of a plan                                 μ_t, σ_t²              ``posterior.mean``, ``.variance``
T       horizon, in rounds                              η_t(i), ς_t²(i)        mean and variance of a plan's reward
r       rank of the posterior root                      α_t                    ``alpha``
R       replications                                    M*(Z)                  value of the best plan
======  ==============================================  =====================  ====================================

Arms, slots and rounds count from 0. A *slot* is a position in a plan; a *block* is the run of rounds between two plans.
"""

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
from jax import Array

State = Any  # what a policy remembers: any pytree of arrays


class Plan(NamedTuple):
    """The best sequence a planner found."""

    arms: Array  # [d], in order of play
    value: Array  # scalar; the objective at `arms`
    certified: Array  # bool; no other sequence is better


class Planner(Protocol):
    """Chooses d plays in advance. A planner is hashable and fixes shapes; everything it is given may be traced.

    ``points`` arguments hold, per arm, the values at the 2d − 1 rests reachable within the window (`planners.windows`).
    """

    depth: int
    repeats: bool  # may an arm be played more than once in a plan?

    def check(self, num_arms: int) -> None: ...
    def plan(self, curves: Array, z: Array) -> Plan: ...
    def plan_points(self, points: Array) -> Plan: ...  # exhaustive, subset: also ends=, what rests are worth afterwards
    def plan_ucb(self, mean: Array, root: Array, z: Array, alpha: Array) -> Plan: ...
    def plan_ucb_points(self, mean: Array, root: Array, alpha: Array) -> Plan: ...


class Policy(Protocol):
    """Plays arms. A policy is a pytree: its numbers are leaves, so that sweeping one of them does not recompile.

    ``plan`` is called at the first round t of every block and returns the ``commit`` arms of that block; ``update``
    is told every play. A policy may also define ``propose(key, state, z, t) -> Plan``, the whole plan of which
    ``plan`` takes the first arms; ``propose_from(shocks, state, z, t)``, the same with ``num_shocks`` standard normal
    numbers in place of those it would draw from its key, so that they can be drawn for many rounds at once;
    ``refresh(state) -> state``, called every 2^15 rounds to shed gathered rounding errors; and ``inform(state, curves)
    -> state``: oracles are shown the true curves this way.
    """

    num_arms: int
    depth: int  # how far a plan looks ahead
    commit: int  # how many plays are made before planning again
    warm_up: Array  # rounds that play arms 0, 1, 2, ... in turn before the first plan

    def init(self, key: Array) -> State: ...
    def plan(self, key: Array, state: State, z: Array, t: Array) -> Array: ...
    def update(self, state: State, arm: Array, z: Array, reward: Array) -> State: ...


def record(*static: str):
    """Class decorator: a frozen dataclass that is a pytree. Fields named in `static` are hashed, the others are leaves.

    Rebuilding one from leaves does not run ``__post_init__``, so that it may validate what a user passed in.
    """

    def decorate(cls):
        cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
        leaves = [field.name for field in dataclasses.fields(cls) if field.name not in static]

        def flatten_with_keys(self):
            children = [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in leaves]
            return children, tuple(getattr(self, name) for name in static)

        def unflatten(statics, children):
            self = object.__new__(cls)
            for name, value in (*zip(static, statics, strict=True), *zip(leaves, children, strict=True)):
                object.__setattr__(self, name, value)
            return self

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten)
        return cls

    return decorate
