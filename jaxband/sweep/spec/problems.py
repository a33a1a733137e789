"""Problems of a sweep: curves drawn from a Gaussian process, parametric ones, a table of numbers, or a user's own.

A definition is plain data, complete in itself: a CSV file is read once, when the spec is, and its numbers are kept; of
a user's factory its reference and the digest of its code. What a definition leaves open (a lengthscale, say) is taken
from the cell, so that truth and policy agree.
"""

import csv
import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from jax.tree_util import Partial

from jaxband import kernels, posterior, recovery, registry
from jaxband.problem import Problem
from jaxband.registry import Entry
from jaxband.sweep.spec import catalog, user_code
from jaxband.sweep.spec.settings import ENVIRONMENT, SettingError, argument, named, value_of

PROBLEM_KINDS = ("gp", "logistic", "gamma", "table")
CURVES = {"logistic": recovery.logistic, "gamma": recovery.gamma}


def define(raw: dict, directory: Path) -> dict:
    """The canonical definition of a problem, files read from `directory`. Raises SettingError."""
    if "factory" in raw:
        return _define_own(raw, directory)
    family = raw.get("family")
    if family is None:
        raise SettingError("family", f"family is missing; it is one of {', '.join(PROBLEM_KINDS)}; or give a factory")
    if not isinstance(family, str) or family not in PROBLEM_KINDS:
        what = f"family must be one of {', '.join(PROBLEM_KINDS)}"
        raise SettingError("family", f"{what}; got {family!r}{registry.nearest(family, PROBLEM_KINDS)}")
    known = {"gp": kernel_settings(), "table": ("csv", "rows")}.get(family, ("theta", "reflection"))
    for key in raw:
        if key != "family" and key not in known:
            raise SettingError(key, registry.unknown(f"entry of a {family} problem", key, known))
    return {"family": family} | _DEFINE[family](raw, directory)


def kernel_settings() -> list[str]:
    """The names by which a Gaussian process is described."""
    return list(dict.fromkeys(["kernel", *(n for e in registry.entries("kernel").values() for n in e.settings)]))


def shape(definition: dict) -> tuple[int, int | None] | None:
    """(num_arms, z_max) as far as a definition fixes them."""
    if "factory" in definition:
        return None
    if "rows" in definition:
        return len(definition["rows"]), len(definition["rows"][0]) - 1
    return (len(definition["theta"]), None) if "theta" in definition else None


def borrow(definition: dict, raw: Mapping, defaults: Mapping, who: str) -> dict:
    """The settings of a cell that its problem depends on, in canonical form."""
    if "factory" in definition:
        known, settings = (*definition["fixed"], *ENVIRONMENT), own_entry(definition).settings.values()
        values = {s.name: value_of(s, raw, {}, who) for s in settings if s.name not in known}
        return {name: value for name, value in values.items() if value is not None}
    if definition["family"] != "gp":
        return {}
    name = definition.get("kernel") or raw.get("kernel") or defaults.get("kernel") or "squared_exponential"
    entry = named("kernel", lambda: registry.entry("kernel", name))
    values = {} if "kernel" in definition else {"kernel": entry.name}
    for setting in entry.settings.values():
        if setting.name not in definition:
            values[setting.name] = value_of(setting, raw, {}, who)
    return values


def borrowed(definition: dict, values: Mapping) -> tuple[str, ...]:
    """Which settings of a cell its problem depends on."""
    if "factory" in definition:
        return tuple(name for name in definition["settings"] if name in values)
    if definition["family"] != "gp":
        return ()
    kernel = registry.entry("kernel", definition.get("kernel") or values["kernel"])
    return tuple(name for name in ("kernel", *kernel.settings) if name not in definition)


def needed(definition: dict, values: Mapping) -> tuple[str, ...]:
    """The settings of a cell that make its problem."""
    return tuple(dict.fromkeys((*ENVIRONMENT, *borrowed(definition, values))))


def build(definition: dict, values: Mapping) -> Problem:
    """The problem of a cell. All its numbers are leaves, so that problems of one family share a compilation."""
    if "factory" in definition:
        return _build_own(json.dumps([definition, {name: values[name] for name in needed(definition, values)}]))
    complete = definition | {name: values[name] for name in borrowed(definition, values)}
    curves = _curves(json.dumps(complete, sort_keys=True), values["num_arms"], values["z_max"])
    return Problem(curves, noise=values["noise"], z_init=values["z_init"])


@functools.lru_cache(maxsize=64)
def _curves(complete: str, num_arms: int, z_max: int):
    """A table, or a function that draws one, from a definition that leaves nothing open."""
    definition = json.loads(complete)
    match definition["family"]:
        case "gp":
            return Partial(posterior.sample, posterior=posterior.prior(_kernel(definition), num_arms, z_max))
        case "gamma":
            return recovery.gamma(definition["theta"], z_max, reflection=definition.get("reflection"))
        case "table":
            return recovery.table(definition["rows"])
        case family:
            return CURVES[family](definition["theta"], z_max)


def _kernel(values: Mapping) -> kernels.Kernel:
    entry = registry.entry("kernel", values["kernel"])
    return entry.make({}, {name: values[name] for name in entry.settings if name in values})


def own_entry(definition: dict) -> Entry:
    """The factory of a user's problem."""
    return registry.entry_of("problem", user_code.function_of(definition["sha256"]), name=definition["factory"])


def own_entries(definitions: Iterable[dict]) -> list[Entry]:
    """The factories of those that are a user's own."""
    return [own_entry(definition) for definition in definitions if "factory" in definition]


@functools.lru_cache(maxsize=64)
def _build_own(complete: str) -> Problem:
    definition, values = json.loads(complete)
    entry, given = own_entry(definition), values | definition["fixed"]
    own = {name: argument(s, given[name]) for name, s in entry.settings.items() if name in given}

    def make() -> Problem:
        made = entry.make(values, own)
        return made if isinstance(made, Problem) else Problem(made, noise=values["noise"], z_init=values["z_init"])

    problem = user_code.guarded(definition["factory"], make)
    for name in ("num_arms", "z_max"):
        if getattr(problem, name) != values[name]:
            what = f"{name} must be that of the problem, got {values[name]}"
            raise SettingError(name, f"{what}; {definition['factory']} makes {getattr(problem, name)}")
    callables = {name: f for name in ("curves", "available") if callable(f := getattr(problem, name))}
    guarded = {name: _guarded(definition["factory"], function) for name, function in callables.items()}
    return dataclasses.replace(problem, **guarded)


def _guarded(who: str, function: Partial) -> Partial:
    """The same function of the same leaves, whose exception in a compiled run is told as the user's."""
    call = _Guarded(who, function.func)
    return Partial(call, *function.args, **function.keywords)


@dataclasses.dataclass(frozen=True)
class _Guarded:
    who: str
    function: Callable

    def __call__(self, *arguments, **named):
        return user_code.guarded(self.who, self.function, *arguments, **named)


def _define_own(raw: dict, directory: Path) -> dict:
    digest, function = named("factory", lambda: catalog.load(raw["factory"], directory))
    if not digest:
        raise SettingError("factory", "factory must be defined at the top of a file, got a closure or a lambda")
    entry = registry.entry_of("problem", function, name="problem")
    for setting in entry.settings.values():
        if setting.reference is not None:
            what = f"factory must take numbers and texts, got a {setting.reference} as {setting.name}"
            raise SettingError("factory", f"{what}; make it inside")
    fixed = catalog.fixed_settings(entry, raw)
    reference, still_open = user_code.code_of(digest).reference, [n for n in entry.settings if n not in fixed]
    return {"factory": reference, "sha256": digest, "settings": still_open, "fixed": fixed}


def _define_gp(raw: dict, directory: Path) -> dict:
    kernel = named("kernel", lambda: registry.entry("kernel", raw.get("kernel", "squared_exponential")))
    definition = {"kernel": kernel.name} if "kernel" in raw else {}
    for key, value in raw.items():
        if key in ("family", "kernel"):
            continue
        settings = {n: s for e in registry.entries("kernel").values() for n, s in e.settings.items()}
        definition[key] = named(key, lambda s=settings[key], v=value: s.check(v))
    open_ones = {n: 1.0 for n, s in kernel.settings.items() if n not in definition}  # any number that is allowed
    if "nu" in open_ones:
        open_ones["nu"] = 1.5
    given = {n: definition[n] for n in kernel.settings if n in definition}
    try:
        kernel.make({}, open_ones | given)
    except (ValueError, TypeError) as error:
        key = next((n for n in given if str(error).startswith(n)), "family")
        raise SettingError(key, str(error)) from None
    return definition


def _define_parametric(raw: dict, directory: Path) -> dict:
    if "theta" not in raw:
        raise SettingError("family", f"theta is missing; a {raw['family']} problem needs one row of 3 numbers per arm")
    theta = named("theta", lambda: _numbers("theta", raw["theta"]))
    if any(len(row) != 3 for row in theta):
        raise SettingError("theta", f"theta must have 3 numbers per arm, got {[len(row) for row in theta]}")
    named("theta", lambda: CURVES[raw["family"]](theta, 0))
    if "reflection" not in raw:
        return {"theta": theta}
    reflection = raw["reflection"]
    if raw["family"] != "gamma" or isinstance(reflection, bool) or not isinstance(reflection, int | float):
        raise SettingError("reflection", f"reflection must be a number, of a gamma problem, got {reflection!r}")
    return {"theta": theta, "reflection": float(reflection)}


def _define_table(raw: dict, directory: Path) -> dict:
    if ("csv" in raw) == ("rows" in raw):
        what = "a table problem needs either csv, the name of a file, or rows, the numbers themselves"
        raise SettingError("family", what)
    if "rows" in raw:
        rows = named("rows", lambda: _numbers("rows", raw["rows"]))
    else:
        rows = named("csv", lambda: _read_csv(directory / str(raw["csv"])))
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
