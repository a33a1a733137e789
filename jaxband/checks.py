"""Errors a user can act on. Each check looks at concrete values only: inside a trace it passes everything through.

A message names the argument, the rule, the value and, where there is one, the remedy.
"""

import operator

import jax
import numpy as np


def concrete_or_none(value):
    """`value` as a NumPy array, or None if it is being traced."""
    return None if isinstance(value, jax.core.Tracer) else np.asarray(value)


def integer(name: str, value, minimum: int, maximum: int | None = None, remedy: str = "") -> int:
    """A Python int within bounds. These fix shapes, so that a traced value is refused too."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{name} fixes a shape and must be a Python int, got a traced value; mark it static in your jit"
        )
    try:
        number = operator.index(value.item() if isinstance(value, np.ndarray) else value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    bounds = f">= {minimum}" if maximum is None else f"between {minimum} and {maximum}"
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError(_sentence(f"{name} must be {bounds}, got {number}", remedy))
    return number


def one_of(name: str, value, choices) -> str:
    """One of the given words."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def positive(name: str, value) -> None:
    _numbers(name, value, "> 0", lambda x: np.isfinite(x) & (x > 0))


def non_negative(name: str, value) -> None:
    _numbers(name, value, ">= 0", lambda x: np.isfinite(x) & (x >= 0))


def finite(name: str, value) -> None:
    _numbers(name, value, "finite", np.isfinite)


def probabilities(name: str, value) -> None:
    _numbers(name, value, "between 0 and 1", lambda x: (x >= 0) & (x <= 1))


def rests(name: str, value) -> None:
    """Whole numbers of rounds, none negative; any length, as rests beyond z_max count as z_max."""
    array = concrete_or_none(value)
    if array is None:
        return
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must hold integers, got {_show(array)} of type {array.dtype}")
    bad = array[array < 0]
    if bad.size:
        raise ValueError(f"{name} must be >= 0, got {_show(bad)}")


def indices(name: str, value, size: int, what: str, minimum: int = 0) -> None:
    """Integers in minimum..size − 1; JAX itself would clamp or wrap them in silence."""
    array = concrete_or_none(value)
    if array is None:
        return
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must hold integers, got {_show(array)} of type {array.dtype}")
    bad = array[(array < minimum) | (array >= size)]
    if bad.size:
        raise ValueError(f"{name} must be in {minimum}..{size - 1} ({what}), got {_show(bad)}")


def shape(name: str, value, expected: tuple, letters: str) -> None:
    """The shape of an array, None standing for any length."""
    actual = np.shape(value)
    fits = len(actual) == len(expected) and all(e in (None, a) for a, e in zip(actual, expected, strict=True))
    if not fits:
        wanted = "[" + ", ".join("any" if e is None else str(e) for e in expected) + "]"
        raise ValueError(f"{name} must have shape {letters} = {wanted}, got {list(actual)}")


def scalar(name: str, value) -> None:
    shape(name, value, (), "[] (one number)")


def _numbers(name, value, rule, accept) -> None:
    array = concrete_or_none(value)
    if array is None:
        return
    if not (np.issubdtype(array.dtype, np.number) or array.dtype.name == "bfloat16"):
        raise TypeError(f"{name} must be {rule}, got {value!r}")
    bad = array[~accept(array)]
    if bad.size:
        raise ValueError(f"{name} must be {rule}, got {_show(bad)}")


def _show(array: np.ndarray) -> str:
    values = array.ravel()[:3].tolist()
    return str(values[0]) if array.size == 1 else f"{values}{' and more' if array.size > 3 else ''}"


def _sentence(rule: str, remedy: str) -> str:
    return f"{rule}; {remedy}" if remedy else rule
