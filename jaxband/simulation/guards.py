"""Calls of a policy's methods while a simulation is traced: what breaks the contract is refused with a remedy.

Everything here happens at trace time and leaves nothing in the compiled program.
"""

import traceback
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import jaxband.base
from jaxband.base import Policy, PolicyError, Round, State
from jaxband.problem import Problem

LIBRARIES = tuple(str(Path(module.__file__).parent) for module in (jax, jaxband.base))


def check_fit(policy: Policy, problem: Problem) -> None:
    """Are these a policy and a problem, with the same arms, grid and plays per round?"""
    check_policy_type(policy)
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a jaxband.Problem, got {problem!r}; make one: jb.Problem(curves, noise=0.1)")
    for name in ("num_arms", "z_max", "plays"):
        ours, theirs = getattr(policy, name), getattr(problem, name)
        if ours != theirs and not (name == "z_max" and ours is None):
            what = f"policy has {name} {ours} but the problem has {theirs}"
            raise ValueError(f"{what}; build both with the same {name}")
    if policy.idle and not problem.may_idle:
        raise ValueError("policy may idle but the problem does not allow it; use Problem(..., idle=True)")


def check_policy_type(policy: Policy) -> None:
    """Is it a policy whose parts can be compiled: numbers as leaves, everything else static and hashable?"""
    if not isinstance(policy, Policy):
        what = f"policy must be a jaxband.Policy, got {policy!r}"
        raise TypeError(f"{what}; subclass jb.Policy, or use jb.policies.from_functions")
    title = type(policy).__name__
    leaves, structure = jax.tree.flatten(policy)
    if len(leaves) == 1 and leaves[0] is policy:
        what = f"{title} is no pytree"
        raise PolicyError(f'{what}; put @jb.pytree_dataclass(static=("num_arms",)) above the class')
    try:
        _hash_static(structure)
    except TypeError as error:
        remedy = "static fields must be hashable: use tuples instead of lists, or make the field a leaf"
        raise PolicyError(f"{title}: {error}; {remedy}") from None
    for path, leaf in jax.tree_util.tree_flatten_with_path(policy)[0]:
        if not _is_numeric(leaf):
            name = jax.tree_util.keystr(path).lstrip(".")
            what = f"{title}.{name} must be a number or an array, got {leaf!r}"
            raise PolicyError(f"{what}; name it in static=(...) if it is neither")
    if not isinstance(policy.num_arms, int):
        what = f"{title}.num_arms must be a Python int, got {policy.num_arms!r}"
        raise PolicyError(f'{what}; name it in static=("num_arms",)')


def _hash_static(structure) -> None:
    """Hash all static fields: what can be changed in place would be compiled in as it was."""
    if (node := structure.node_data()) is not None:
        hash(node[1])
    for child in structure.children():
        _hash_static(child)


def initial_state(policy: Policy, key: Array, curves: Array) -> State:
    """`init` and `inform`, as arrays of fixed types."""
    state = call(policy, "init", lambda: policy.init(key))
    return call(policy, "inform", lambda: policy.inform(_as_arrays(policy, "init", state), curves))


def draw(policy: Policy, key: Array, rounds: Array):
    """`draw`, with a leading axis of as many rows as there are rounds."""
    drawn = call(policy, "draw", lambda: policy.draw(key, rounds))
    for leaf in jax.tree.leaves(drawn):
        if leaf.ndim == 0 or leaf.shape[0] != len(rounds):
            what = f"{policy.title()}.draw must return arrays with a leading axis of {len(rounds)}, one row per round"
            raise PolicyError(f"{what}, got shape {list(leaf.shape)}")
    return drawn


def choose(policy: Policy, key, state: State, round: Round) -> tuple[Array, State]:
    """`choose`: an int32 arm of the right shape, and a state like the one before."""
    result = call(policy, "choose", lambda: policy.choose(key, state, round))
    if not isinstance(result, tuple) or len(result) != 2:
        what = f"{policy.title()}.choose must return (arm, state), got {type(result).__name__}"
        raise PolicyError(f"{what}; also a policy that remembers nothing returns its state")
    arm, new = result
    expected = () if policy.plays is None else (policy.plays,)
    if not _is_numeric(arm):
        raise PolicyError(f"{policy.title()}.choose must return an arm, a number, got {arm!r}")
    arm = jnp.asarray(arm)
    if arm.shape != expected:
        wanted = "a scalar" if policy.plays is None else f"an array [{policy.plays}]"
        remedy = "take one entry" if policy.plays is None else "`plays` says how many arms it plays"
        what = f"{policy.title()}.choose must return {wanted} as arm, got shape {list(arm.shape)}"
        raise PolicyError(f"{what}; {remedy}")
    if not jnp.issubdtype(arm.dtype, jnp.integer):
        what = f"{policy.title()}.choose must return an integer arm, got dtype {arm.dtype}"
        raise PolicyError(f"{what}; use argmax, or astype(jnp.int32)")
    return arm.astype(jnp.int32), _like(policy, "choose", state, new)


def update(policy: Policy, state: State, round: Round, arm: Array, reward: Array) -> State:
    """`update`: a state like the one before."""
    return _like(policy, "update", state, call(policy, "update", lambda: policy.update(state, round, arm, reward)))


def refresh(policy: Policy, state: State) -> State:
    """`refresh`: a state like the one before."""
    return _like(policy, "refresh", state, call(policy, "refresh", lambda: policy.refresh(state)))


def watched(policy: Policy, state: State, watch: tuple[str, ...]) -> dict[str, Array]:
    """The numbers that are watched of the plan being played."""
    if not watch:
        return {}
    described = call(policy, "describe", lambda: policy.describe(state))
    for name in watch:
        if name not in described:
            there = f"there are {', '.join(described)}" if described else "it describes nothing"
            raise ValueError(f"watch must name numbers that {policy.title()}.describe gives, got {name!r}; {there}")
    return {name: jnp.asarray(described[name], dtype=float) for name in watch}


def _is_numeric(value) -> bool:
    """Can JAX make an array of it?"""
    if isinstance(value, jax.Array | jax.core.Tracer):
        return True
    try:
        return np.asarray(value).dtype.kind in "biufc" or np.asarray(value).dtype.name == "bfloat16"
    except ValueError:  # a ragged list
        return False


def call(policy: Policy, method: str, function: Callable):
    """function(), whose exception is told as the policy's, with the line of the user's code."""
    try:
        return function()
    except PolicyError:
        raise
    except NotImplementedError as error:
        raise PolicyError(f"{error}; jb.Policy says what each method takes and returns") from None
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:300]
        where = _place(error)
        what = f"{policy.title()}.{method} raised {type(error).__name__}{where}: {first}"
        refusal = PolicyError(f"{what}{_remedy(error)}")
        refusal.original = error
        raise refusal from None


def _remedy(error: Exception) -> str:
    if isinstance(error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError):
        return "; policies are compiled: use jnp, jnp.where and lax.cond instead of Python's if and NumPy"
    return ""


def _place(error: Exception) -> str:
    """Where in the user's own code it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((*LIBRARIES, "<frozen"))]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _as_arrays(policy: Policy, method: str, state: State) -> State:
    """A state of arrays, with fixed types where Python numbers have weak ones."""

    def fix(path, leaf):
        if not _is_numeric(leaf):
            name = jax.tree_util.keystr(path) or "state"
            what = f"{policy.title()}.{method} must return a state of arrays, got {leaf!r} for {name}"
            raise PolicyError(f"{what}; make what does not change a static field of the policy")
        array = jnp.asarray(leaf)
        return jax.lax.convert_element_type(array, array.dtype)

    return jax.tree_util.tree_map_with_path(fix, state)


def _like(policy: Policy, method: str, old: State, new: State) -> State:
    """`new`, if it has the structure, shapes and dtypes of `old`."""
    new = _as_arrays(policy, method, new)
    before, after = jax.tree.structure(old), jax.tree.structure(new)
    if before != after:
        what = f"{policy.title()}.{method} must return a state of the same structure, {before}, got {after}"
        raise PolicyError(f"{what}; `init` fixes it")
    for (path, x), y in zip(jax.tree_util.tree_flatten_with_path(old)[0], jax.tree.leaves(new), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            name = jax.tree_util.keystr(path) or "state"
            what = f"{policy.title()}.{method} must leave {name} as it is, {x.dtype}{list(x.shape)}"
            raise PolicyError(f"{what}, got {y.dtype}{list(y.shape)}; `init` fixes shapes and dtypes")
    return new
