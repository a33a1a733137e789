"""What there is: every policy, planner, kernel, family, schedule and metric describes itself once.

An entry is a factory with a name, a label for people and, if there is one, a table of costs. It is made beside the
definition. The settings that a spec may give, their types and defaults are read from the factory's own signature, here
and nowhere else. Sweeps, estimates, reports, the command line and the tests go through the entries; a user's own are
registered the same way.
"""

import dataclasses
import difflib
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

KINDS = ("policy", "planner", "kernel", "family", "schedule", "metric")
GIVEN = ("num_arms", "z_max", "noise", "horizon", "rank")  # what a factory may ask for that is no setting of its own
REQUIRED = object()

_entries: dict[str, dict[str, "Entry"]] = {kind: {} for kind in KINDS}
_kind_of_type: dict[type, str] = {}  # Kernel -> "kernel", so that a parameter of that type is chosen by name


class Cost(typing.NamedTuple):
    """A rough cost on one core, for the estimates of sweeps."""

    round: float  # microseconds per round; of planners per plan
    compile: float  # seconds


@dataclasses.dataclass(frozen=True)
class Setting:
    """One parameter of a factory, as a spec may give it."""

    name: str
    types: tuple[type, ...]  # int, float, bool, str; empty: anything
    reference: str | None = None  # a kind: the value is the name of an entry
    choices: tuple | None = None
    default: Any = REQUIRED
    optional: bool = False  # may it be None ("none" in a spec)?

    @property
    def is_number(self) -> bool:
        """Does another value leave all shapes as they are?"""
        return float in self.types

    def check(self, value):
        """`value` in canonical form: floats for numbers, None for "none". TypeError or ValueError if it cannot be."""
        if self.optional and (value is None or value == "none"):
            return None
        if self.reference is not None:
            return _known(self.name, value, names(self.reference))
        if self.choices is not None:
            matches = [c for c in self.choices if c == value and isinstance(value, bool) == isinstance(c, bool)]
            if not matches:
                raise ValueError(_one_of(self.name, value, self.choices))
            return matches[0]
        if not self.types:
            return _plain(self.name, value)
        if bool in self.types and isinstance(value, bool):
            return value
        if float in self.types and isinstance(value, int | float) and not isinstance(value, bool):
            return _plain(self.name, float(value))
        if int in self.types and isinstance(value, int) and not isinstance(value, bool):
            return value
        if str in self.types and isinstance(value, str):
            return value
        raise TypeError(f"{self.name} must be {self.rule()}, got {value!r}")

    def rule(self) -> str:
        """What values it takes, in words."""
        words = {bool: "true or false", float: "a number", int: "a whole number", str: "a text"}
        shown = " or ".join(words[t] for t in self.types)
        return f'{shown} or "none"' if self.optional else shown


@dataclasses.dataclass(frozen=True)
class Entry:
    """One thing that can be named in a spec."""

    kind: str
    name: str
    factory: Callable
    label: str  # for people
    cost: Callable | None = None  # of policies: settings -> Cost; of planners: (settings, for_bounds) -> Cost
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # in specs, where the factory says None
    words: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)  # setting -> word, unit
    example: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # settings for tests of all entries
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # further facts, such as lower_is_better

    @functools.cached_property
    def settings(self) -> dict[str, Setting]:
        """The parameters of the factory that a spec may give, in order."""
        return {name: setting for name, setting in _parameters(self.factory).items() if name not in GIVEN}

    @functools.cached_property
    def asks_for(self) -> tuple[str, ...]:
        """What it is given of `GIVEN`."""
        return tuple(name for name in _parameters(self.factory) if name in GIVEN)

    def make(self, given: Mapping[str, Any], values: Mapping[str, Any]):
        """The factory's product, from what it asks for of `given` and the settings in `values`."""
        arguments = {name: given[name] for name in self.asks_for}
        return self.factory(**arguments, **{name: values[name] for name in self.settings if name in values})


def register(
    kind: str,
    factory: Callable | None = None,
    *,
    name: str | None = None,
    label: str | None = None,
    cost: Callable | None = None,
    defaults: Mapping[str, Any] | None = None,
    words: Mapping[str, tuple[str, str]] | None = None,
    example: Mapping[str, Any] | None = None,
    **about,
):
    """Add a factory to what specs, reports and tests know; also as a decorator. Returns the factory.

    `label` is what tables call it. `defaults` are a spec's defaults for settings whose own default is None. `words`
    give a setting a word and a unit for axes. A name that is taken by another factory is refused.

    >>> @register("metric", label="plays of arm 0")
    ... def plays_of_arm_0(curves, rounds):
    ...     return rounds.arms == 0
    >>> names("metric")[-1]
    'plays_of_arm_0'
    >>> unregister("metric", "plays_of_arm_0")
    """
    if kind not in KINDS:
        raise ValueError(_one_of("kind", kind, KINDS))
    if factory is None:
        return lambda made: register(
            kind, made, name=name, label=label, cost=cost, defaults=defaults, words=words, example=example, **about
        )
    if not callable(factory):
        raise TypeError(f"factory must be a function, got {factory!r}")
    entry = entry_of(kind, factory, name, label, cost, defaults, words, example, about)
    taken = _entries[kind].get(entry.name)
    if taken is not None and not _same_source(taken.factory, factory):
        raise ValueError(f"name {entry.name!r} is taken by another {kind}; choose another one, or unregister it first")
    _entries[kind][entry.name] = entry
    return factory


def entry_of(
    kind: str, factory: Callable, name=None, label=None, cost=None, defaults=None, words=None, example=None, about=None
) -> Entry:
    """An entry that is not registered: what a spec names by "module:function"."""
    name = name or factory.__name__
    label = label or name.replace("_", " ")
    return Entry(kind, name, factory, label, cost, defaults or {}, words or {}, example or {}, about or {})


def unregister(kind: str, name: str) -> None:
    """Forget an entry."""
    entry(kind, name)
    del _entries[kind][name]


def register_type(kind: str, type_: type) -> None:
    """Parameters annotated with `type_` are chosen by the name of an entry of that kind."""
    _kind_of_type[type_] = kind


def entry(kind: str, name: str) -> Entry:
    """The entry of that name; a ValueError names the nearest one."""
    return _entries[kind][_known(kind, name, _entries[kind])]


def entries(kind: str) -> dict[str, Entry]:
    """All entries of a kind, in the order in which they were registered."""
    return dict(_entries[kind])


def names(kind: str) -> list[str]:
    return list(_entries[kind])


def unknown(what: str, name, known: Iterable) -> str:
    """What to say about a name that is none of `known`."""
    return f"unknown {what} {name!r}{nearest(name, known) or '; there are ' + ', '.join(map(str, known))}"


def nearest(name, known: Iterable) -> str:
    """A hint at the name that was meant, "RGP-TS" for "rgp_ts", say; empty if none is close."""
    written = str(name).lower().replace("-", "_")
    close = difflib.get_close_matches(written, [str(n) for n in known], n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _known(what: str, name, known: Iterable) -> str:
    if not isinstance(name, str) or name not in known:
        raise ValueError(_one_of(what, name, known))
    return name


def _one_of(name: str, value, choices: Iterable) -> str:
    return f"{name} must be one of {', '.join(map(str, choices))}; got {value!r}{nearest(value, choices)}"


def _plain(name: str, value):
    """`value`, if it can be written down: finite numbers, texts, and lists of them."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a finite number, a text or a list of them, got {value!r}") from None
    return value


def _same_source(old: Callable, new: Callable) -> bool:
    """Is it the same function, defined again? A notebook cell that is run twice, say."""
    return old is new or (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def _parameters(factory: Callable) -> dict[str, Setting]:
    """The parameters of a factory as settings, with types from its annotations or else its defaults."""
    try:
        hints = typing.get_type_hints(factory.__init__ if isinstance(factory, type) else factory)
    except (NameError, TypeError, AttributeError):
        hints = {}
    found = {}
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = REQUIRED if parameter.default is parameter.empty else parameter.default
        found[parameter.name] = _setting(parameter.name, hints.get(parameter.name), default)
    return found


def _setting(name: str, hint, default) -> Setting:
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    options = typing.get_args(hint) if is_union else (hint,)
    optional = type(None) in options or default is None
    for option in options:
        if option in _kind_of_type:
            return Setting(name, (), reference=_kind_of_type[option], default=default, optional=optional)
        if typing.get_origin(option) is typing.Literal:
            return Setting(name, (), choices=typing.get_args(option), default=default, optional=optional)
    simple = tuple(option for option in options if option in (bool, int, float, str))
    if not simple and type(default) in (bool, int, float, str):
        simple = (type(default),)
    return Setting(name, simple, default=default, optional=optional)
