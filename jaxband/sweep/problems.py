"""Problem families of a sweep: curves drawn from a Gaussian process, logistic, gamma, or a table of numbers.

A definition is plain data, complete in itself: a CSV file is read once, when the spec is, and its numbers are kept.
What a Gaussian process leaves open (its lengthscale, say) is taken from the cell, so that truth and policy agree.
"""

import csv
import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jax.tree_util import Partial

from jaxband import kernels, posterior, recovery
from jaxband.environment import Problem
from jaxband.sweep import settings

FAMILIES = {
    "gp": settings.KERNEL_SETTINGS,
    "logistic": ("theta",),
    "gamma": ("theta", "reflection"),
    "table": ("csv", "rows"),
}


def define(raw: dict, directory: Path) -> dict:
    """The canonical definition of a problem, files read from `directory`. Raises KeyedError with the offending key."""
    family = raw.get("family")
    if family is None:
        raise ValueError(f"family is missing; it is one of {', '.join(FAMILIES)}")
    _named("family", lambda: settings.word(FAMILIES)("family", family))
    for key in raw:
        if key != "family" and key not in FAMILIES[family]:
            raise KeyedError(key, settings.unknown(f"entry of a {family} problem", key, FAMILIES[family]))
    return {"family": family} | _DEFINE[family](raw, directory)


class KeyedError(ValueError):
    """A refusal that knows which key it is about."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def shape(definition: dict) -> tuple[int, int | None] | None:
    """(num_arms, z_max) as far as a definition fixes them."""
    if "rows" in definition:
        return len(definition["rows"]), len(definition["rows"][0]) - 1
    return (len(definition["theta"]), None) if "theta" in definition else None


def borrowed(definition: dict, kernel: str) -> tuple[str, ...]:
    """The settings of the cell that the problem depends on."""
    if definition["family"] != "gp":
        return ()
    open_ones = ("kernel", *settings.KERNEL_USES[definition.get("kernel", kernel)])
    return tuple(name for name in open_ones if name not in definition)


def build(definition: dict, cell: dict) -> Problem:
    """The problem of a cell. All its numbers are leaves, so that problems of one family share a compilation."""
    open_ones = {name: cell[name] for name in borrowed(definition, cell.get("kernel", ""))}
    curves = _curves(json.dumps(definition | open_ones, sort_keys=True), cell["num_arms"], cell["z_max"])
    return Problem(curves, noise=cell["noise"], z_init=cell["z_init"])


@functools.lru_cache(maxsize=64)
def _curves(complete: str, num_arms: int, z_max: int):
    """A table, or a function that draws one, from a definition that leaves nothing open."""
    definition = json.loads(complete)
    match definition["family"]:
        case "gp":
            return Partial(posterior.sample, posterior=posterior.prior(kernel(definition), num_arms, z_max))
        case "logistic":
            return recovery.logistic(definition["theta"], z_max)
        case "gamma":
            return recovery.gamma(definition["theta"], z_max, reflection=definition.get("reflection"))
        case "table":
            return recovery.table(definition["rows"])


def kernel(values: dict) -> kernels.Kernel:
    """The kernel that the settings describe."""
    names = {"squared_exponential": "SquaredExponential"}
    kind = values["kernel"]
    options = {name: values[name] for name in settings.KERNEL_USES[kind]}
    return getattr(kernels, names.get(kind, kind.capitalize()))(**options)


def _define_gp(raw: dict, directory: Path) -> dict:
    return {
        key: _named(key, lambda k=key, v=value: settings.checked(k, v)) for key, value in raw.items() if key != "family"
    }


def _define_parametric(raw: dict, directory: Path) -> dict:
    if "theta" not in raw:
        raise KeyedError("family", f"theta is missing; a {raw['family']} problem needs one row of 3 numbers per arm")
    theta = _named("theta", lambda: _numbers("theta", raw["theta"]))
    if any(len(row) != 3 for row in theta):
        raise KeyedError("theta", f"theta must have 3 numbers per arm, got {[len(row) for row in theta]}")
    families = {"logistic": recovery.logistic, "gamma": recovery.gamma}
    _named("theta", lambda: families[raw["family"]](theta, 0))
    if "reflection" not in raw:
        return {"theta": theta}
    check = settings.number(lambda name, value: None)
    return {"theta": theta, "reflection": _named("reflection", lambda: check("reflection", raw["reflection"]))}


def _define_table(raw: dict, directory: Path) -> dict:
    if ("csv" in raw) == ("rows" in raw):
        raise KeyedError(
            "family", "a table problem needs either csv, the name of a file, or rows, the numbers themselves"
        )
    if "rows" in raw:
        rows = _named("rows", lambda: _numbers("rows", raw["rows"]))
    else:
        rows = _named("csv", lambda: _read_csv(directory / str(raw["csv"])))
    width = max(map(len, rows))
    return {"rows": [row + row[-1:] * (width - len(row)) for row in rows]}


_DEFINE: dict[str, Callable[[dict, Path], dict]] = {
    "gp": _define_gp,
    "logistic": _define_parametric,
    "gamma": _define_parametric,
    "table": _define_table,
}


def _read_csv(path: Path) -> list[list[float]]:
    """One arm per line, f(0), f(1), …; shorter lines hold their last value."""
    try:
        with open(path, newline="") as file:
            lines = [[entry for entry in line if entry.strip()] for line in csv.reader(file)]
        return _numbers(str(path), [[float(entry) for entry in line] for line in lines if line])
    except OSError as error:
        raise ValueError(f"csv cannot be read: {error}") from None
    except ValueError as error:
        raise ValueError(f"csv must hold numbers only, one arm per line: {error} in {path}") from None


def _numbers(name: str, rows) -> list[list[float]]:
    """A non-empty list of non-empty lists of finite numbers."""
    is_table = (
        isinstance(rows, list | tuple) and len(rows) and all(isinstance(r, list | tuple) and len(r) for r in rows)
    )
    good = is_table and all(
        isinstance(x, int | float) and not isinstance(x, bool) and np.isfinite(x) for row in rows for x in row
    )
    if not good:
        raise ValueError(f"{name} must hold one non-empty row of finite numbers per arm")
    return [[float(x) for x in row] for row in rows]


def _named(key: str, make: Callable):
    """make(), its refusal tied to `key`."""
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise error if isinstance(error, KeyedError) else KeyedError(key, str(error)) from None
