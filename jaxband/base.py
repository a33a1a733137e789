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
m       plays per round                                 J_t                    ``arm``
======  ==============================================  =====================  ====================================

Arms, slots and rounds count from 0. A *slot* is a position in a plan; a *block* is the run of rounds between two plans.

    arm, state = policy.choose(policy.draw(key, t[None])[0], state, Round(t, z))
    state = policy.update(state, Round(t, z), arm, reward)

These two lines are what the compiled loop runs, what a loop written by hand runs, and what the tests check.
"""

from typing import Any, ClassVar, NamedTuple

import jax
from jax import Array

from jaxband import calls
from jaxband._compiled import prng
from jaxband.calls import IDLE, INVALID, Round
from jaxband.registry import register_type

__all__ = ["IDLE", "INVALID", "Plan", "Planner", "Policy", "PolicyError", "Round", "State"]

State = Any  # what a policy remembers: any pytree of arrays


class Plan(NamedTuple):
    """The best sequence a planner found."""

    arms: Array  # [d], in order of play
    value: Array  # scalar; the objective at `arms`
    certified: Array  # bool; no other sequence is better


class PolicyError(ValueError):
    """A policy that does not keep the contract, or that raised an exception: which, where, and what to do."""

    original: Exception | None = None  # what the policy's own code raised
    tag: Any = None  # of the work in which it happened


class Policy:
    """Chooses arms. Subclass it with `pytree_dataclass(static=(...))`, so that its numbers are leaves of a pytree.

    Write `init`, `choose` and `update`; the other methods have defaults. All are pure functions of arrays. Called with
    numbers each runs as one compiled program (`calls`). A branch on `round.t` alone (`lax.cond`) stays a branch when
    thousands of replications run side by side; one on the state does not.

    >>> import jax.numpy as jnp
    >>> from jaxband.pytree import pytree_dataclass
    >>> @pytree_dataclass(static=("num_arms",))
    ... class LongestRested(Policy):
    ...     num_arms: int
    ...     def init(self, key):
    ...         return ()
    ...     def choose(self, key, state, round):
    ...         return jnp.argmax(round.z), state
    ...     def update(self, state, round, arm, reward):
    ...         return state
    >>> LongestRested(3).choose(None, (), Round(0, jnp.array([2, 5, 0])))[0].item()
    1
    """

    num_arms: int
    z_max: int | None = None  # None: any grid
    plays: int | None = None  # None: `arm` is a scalar; m, also 1: `arm` is [m]
    idle: bool = False  # may it choose not to play?

    def __init_subclass__(cls, **options) -> None:
        super().__init_subclass__(**options)
        calls.prepare_policy(cls)

    def init(self, key: Array) -> State:
        """The state before the first round."""
        raise NotImplementedError(f"{type(self).__name__} does not define init(key)")

    def choose(self, key: Any, state: State, round: Round) -> tuple[Array, State]:
        """The arm to play, and the state that remembers the plan. `key` is what `draw` gave for this round.

        The arm is an integer, or [m] for `plays` = m: all different, in rising order, `IDLE` last.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define choose(key, state, round)")

    def update(self, state: State, round: Round, arm: Array, reward: Array) -> State:
        """The state after `arm` was played in `round` and paid `reward`."""
        raise NotImplementedError(f"{type(self).__name__} does not define update(state, round, arm, reward)")

    def draw(self, key: Array, rounds: Array) -> Any:
        """What the choices in consecutive `rounds` [n] are random by, leading axis n: by default a key per round."""
        return jax.vmap(lambda t: prng.fold_in(key, t))(rounds)

    def refresh(self, state: State) -> State:
        """`state` without the rounding errors that many updates gather; asked for every 2^15 rounds."""
        return state

    def inform(self, state: State, curves: Array) -> State:
        """`state` of one who knows the true curves [K, G]; called right after `init`. For oracles only."""
        return state

    def describe(self, state: State) -> dict[str, Array]:
        """Numbers about the plan being played, for `watch=`; NaN while there is none."""
        return {}

    def title(self) -> str:
        """What messages call it."""
        return type(self).__name__

    def begin_at(self, first_round: int) -> "Policy":
        """The same policy, asked to choose from round `first_round` on: there its first block begins."""
        return self


class Planner:
    """Chooses d plays in advance. A planner is a frozen dataclass: hashable, all its fields fix shapes.

    What a planner cannot do is said by its class attributes, so that a policy can refuse it when it is built. Arguments
    are checked before a subclass's method sees them, and its methods are compiled (`calls`).
    """

    depth: int
    repeats: bool = True  # may an arm be played more than once in a plan?

    plan_type: ClassVar[type] = Plan  # what `plan` and `plan_window` return: `Plan`, perhaps with more numbers
    ucb_plan_type: ClassVar[type] = Plan  # the same of `plan_ucb` and `plan_ucb_window`
    takes_terminal_values: ClassVar[bool] = False
    plans_windows: ClassVar[bool] = False  # does it have `plan_window`?
    plans_upper_bounds: ClassVar[bool] = False  # does it have `plan_ucb` and `plan_ucb_window`?
    max_plays: ClassVar[int | None] = 1  # per round; None: any number

    def __init_subclass__(cls, **options) -> None:
        super().__init_subclass__(**options)
        calls.prepare_planner(cls)

    def check(self, num_arms: int) -> None:
        """Refuse numbers of arms that it cannot plan for."""

    def plan(
        self,
        curves: Array,
        z: Array,
        *,
        terminal_values: Array | None = None,
        available: Array | None = None,
        plays: int | None = None,
        idle: bool = False,
    ) -> Plan:
        """The best plan found for known or sampled curves [K, G] from rests z [K].

        `terminal_values` [K, G] says what each arm's rest after the plan is worth. Arms that are not `available` [K]
        are not played in the first slot; if none is, that slot is `IDLE`. With `idle` any slot may be. With `plays` = m
        the plan is [d, m].
        """
        raise NotImplementedError(f"{type(self).__name__} does not define plan")

    def plan_window(self, points: Array, *, num_slots: Array | None = None, terminal: Array | None = None) -> Plan:
        """The same from the 2d − 1 points of every curve within the window (`planners.slot_sets`), [K, 2d − 1].

        −∞ where an arm cannot be played. Only the first `num_slots` slots count, if given. `terminal` [K, d + 1] is
        what each arm's rest is worth after a last play in slot 0..d − 1, or no play.
        """
        raise NotImplementedError(f"{type(self).__name__} does not plan from points")

    def plan_ucb(
        self,
        mean: Array,
        root: Array,
        z: Array,
        alpha: Array,
        *,
        extra_variance: Array = 0.0,
        available: Array | None = None,
    ) -> Plan:
        """The sequence of largest η + α √(ς² + extra_variance); mean [K, G], root [K, G, r]."""
        raise NotImplementedError(f"{type(self).__name__} does not plan for upper confidence bounds")

    def plan_ucb_window(self, mean: Array, root: Array, alpha: Array, *, extra_variance: Array = 0.0) -> Plan:
        """The same from the points within the window, [K, 2d − 1] and [K, 2d − 1, r]."""
        raise NotImplementedError(f"{type(self).__name__} does not plan for upper confidence bounds")

    def shaped(self, plan: Plan, plays: int | None) -> Plan:
        """A plan of one play per slot as [d], or [d, 1] for `plays` = 1."""
        return plan if plays is None else plan._replace(arms=plan.arms[:, None])


register_type("planner", Planner)
