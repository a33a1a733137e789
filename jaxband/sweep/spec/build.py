"""The policy of a cell, made from its settings by the entries of the registry."""

import functools
from collections.abc import Mapping
from typing import Any

from jaxband import kernels, registry
from jaxband.base import Policy, PolicyError
from jaxband.problem import Problem
from jaxband.registry import Entry
from jaxband.simulation import guards
from jaxband.sweep.spec.settings import argument

SMALL = {"z_max": 8, "policy_noise": 1.0, "horizon": 1}  # enough to find out whether a factory refuses


def policy(entry: Entry, values: Mapping[str, Any], rank: int | None = None) -> Policy:
    """What the settings of a cell say. All its numbers are leaves."""
    given = _given(values) | {"rank": rank}
    chosen = {name: _object(s, values[name], values) for name, s in entry.settings.items() if name in values}
    made = entry.make(given, chosen)
    if not isinstance(made, Policy):
        what = f"{entry.name} must return a jaxband.Policy, got {made!r}"
        raise PolicyError(f"{what}; subclass jb.Policy, or use jb.policies.from_functions")
    return made


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """What factories are given besides their settings."""
    given = {name: values[name] for name in ("num_arms", "z_max", "horizon")}
    return given | {"noise": values.get("policy_noise"), "rank": None}


def part(kind: str, values: Mapping[str, Any], setting: str | None = None):
    """The kernel, planner, … that the settings name."""
    entry = registry.entry(kind, values[setting or kind])
    return entry.make(values, {name: argument(s, values[name]) for name, s in entry.settings.items() if name in values})


def _object(setting: registry.Setting, value, values: Mapping[str, Any]):
    value = argument(setting, value)
    return value if setting.reference is None or value is None else part(setting.reference, values, setting.name)


def check(entry: Entry, values: Mapping[str, Any], problem: Problem | None, is_own: bool) -> None:
    """Refuse what the factories would refuse, without the cost of a posterior on the whole grid.

    A user's own factory is called with the real numbers. `problem` is one of the user's own.
    """
    for name, setting in entry.settings.items():
        if setting.reference == "kernel" and values.get(name) is not None:
            part("kernel", values, name)
    if is_own or (problem is not None and problem.plays is not None):
        made = policy(entry, values)
        guards.check_policy_type(made) if problem is None else guards.check_fit(made, problem)
        return
    hidden = {"problem", "seed", "noise", "z_init", *SMALL, *_kernel_settings()}
    _check(entry.name, tuple(sorted((name, value) for name, value in values.items() if name not in hidden)))


@functools.cache
def _kernel_settings() -> frozenset[str]:
    return frozenset(name for entry in registry.entries("kernel").values() for name in entry.settings)


@functools.lru_cache(maxsize=4096)
def _check(name: str, values: tuple) -> None:
    entry, values = registry.entry("policy", name), dict(values) | SMALL
    made = {}
    for name, setting in entry.settings.items():
        if setting.reference == "kernel":
            made[name] = kernels.Constant()
        elif name in values:
            made[name] = _object(setting, values[name], values)
    entry.make(_given(values), made)
