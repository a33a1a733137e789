"""A policy of three plain functions."""

from collections.abc import Callable

from jax import Array

from jaxband import checks
from jaxband.base import Policy, Round, State
from jaxband.pytree import pytree_dataclass


def from_functions(
    init: Callable[[Array], State],
    choose: Callable[[Array, State, Round], tuple[Array, State]],
    update: Callable[[State, Round, Array, Array], State],
    num_arms: int,
    *,
    z_max: int | None = None,
    plays: int | None = None,
    idle: bool = False,
    name: str | None = None,
) -> Policy:
    """A policy whose `init(key)`, `choose(key, state, round)` and `update(state, round, arm, reward)` are given.

    Define the functions once, at the top of a module or a notebook: another function object compiles again. `name` is
    what messages call it.

    >>> policy = from_functions(
    ...     init=lambda key: 0,
    ...     choose=lambda key, state, round: (state % 3, state),
    ...     update=lambda state, round, arm, reward: state + 1,
    ...     num_arms=3,
    ... )
    >>> arm, state = policy.choose(None, 7, Round(t=0, z=[0, 0, 0]))
    >>> int(arm), int(state)
    (1, 7)
    """
    for argument, function in (("init", init), ("choose", choose), ("update", update)):
        if not callable(function):
            raise TypeError(f"{argument} must be a function, got {function!r}")
    num_arms = checks.integer("num_arms", num_arms, minimum=1)
    z_max = None if z_max is None else checks.integer("z_max", z_max, minimum=0)
    plays = None if plays is None else checks.integer("plays", plays, 1, num_arms)
    name = name or f"from_functions(choose={choose.__name__})"
    return FromFunctions((init, choose, update), num_arms, z_max, plays, bool(idle), name)


@pytree_dataclass(static=("functions", "num_arms", "z_max", "plays", "idle", "name"))
class FromFunctions(Policy):
    functions: tuple[Callable, Callable, Callable]  # init, choose, update
    num_arms: int
    z_max: int | None
    plays: int | None
    idle: bool
    name: str

    def init(self, key: Array) -> State:
        return self.functions[0](key)

    def choose(self, key, state: State, round: Round) -> tuple[Array, State]:
        return self.functions[1](key, state, round)

    def update(self, state: State, round: Round, arm: Array, reward: Array) -> State:
        return self.functions[2](state, round, arm, reward)

    def title(self) -> str:
        return self.name
