"""What a cell may say: the environment's settings, and those of the entries that its policy is made of.

Names, types and defaults come from the registry. A setting that a policy does not use is left out of its cells, so that
`policy = ["rgp_ts", "random"]` times ten lengthscales is eleven cells, not twenty.
"""

from collections.abc import Iterable, Mapping

from jaxband import checks, registry
from jaxband.registry import REQUIRED, Entry, Setting

ENVIRONMENT = ("problem", "num_arms", "z_max", "noise", "z_init", "horizon", "seed")
NUMBERS = ("problem", "noise", "z_init", "seed", "policy_noise")  # change no shape
RULES = {  # of the settings that no factory has
    "num_arms": lambda name, value: checks.integer(name, value, 1),
    "z_max": lambda name, value: checks.integer(name, value, 0),
    "noise": lambda name, value: _number(name, value, checks.non_negative),
    "z_init": lambda name, value: checks.integer(name, value, 0),
    "horizon": lambda name, value: checks.integer(name, value, 1, 2**31 - 1),
    "seed": lambda name, value: checks.integer(name, value, 0, 2**32 - 1),
    "policy_noise": lambda name, value: _number(name, value, checks.positive),
    "policy": lambda name, value: value,  # checked against the policies that the spec knows
    "problem": lambda name, value: value,
}
NONE = "none"  # in specs, and in cells where the factory's own default is something else
DEFAULTS = {"noise": 0.1, "z_init": 0, "seed": 0}
DEFAULT_FROM = {"policy_noise": "noise"}  # whose value is the default
WORDS = {  # setting -> word, unit
    "num_arms": ("arms", ""),
    "z_max": ("longest rest", "rounds"),
    "z_init": ("first rest", "rounds"),
    "horizon": ("horizon", "rounds"),
    "policy_noise": ("assumed noise", ""),
}


class SettingError(ValueError):
    """A refusal that knows which setting it is about."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def named(key: str, make):
    """make(), its refusal tied to `key`."""
    try:
        return make()
    except SettingError:
        raise
    except (ValueError, TypeError) as error:
        raise SettingError(key, str(error)) from None


def order(entries: Iterable[Entry] = ()) -> list[str]:
    """All settings in one fixed order: the environment's, then those of the registry, then a user's own."""
    known = ["problem", "policy", *ENVIRONMENT[1:], "policy_noise"]
    for kind in ("planner", "policy", "kernel", "schedule", "family"):
        if kind != "policy":
            known.append(kind)
        for entry in registry.entries(kind).values():
            known += entry.settings
    for entry in entries:
        known += entry.settings
    return list(dict.fromkeys(known))


def names_in(cells) -> list[str]:
    """The settings that some cell has, in that order; those of a user's own factories last."""
    present = {name for cell in cells for name in cell.settings}
    known = order()
    return [name for name in known if name in present] + sorted(present - set(known))


def rank(value) -> tuple:
    """Values of a setting in order: numbers by size, then texts and lists."""
    return (0, value, "") if isinstance(value, int | float) else (1, 0, str(value))


def is_default_from_other(name: str, values: Mapping) -> bool:
    """Does the setting have the value that its default copies?"""
    return name in DEFAULT_FROM and values.get(name) == values.get(DEFAULT_FROM[name])


def parts(entry: Entry, values: Mapping) -> list[Entry]:
    """The entry and those that its settings name: its kernel, its planner, …"""
    named_ones = [
        registry.entry(setting.reference, values[name])
        for name, setting in entry.settings.items()
        if setting.reference is not None and values.get(name) not in (None, NONE)
    ]
    return [entry, *named_ones]


def find(name: str, entries: Iterable[Entry]) -> list[Setting]:
    """What the entries, and all that could be named in their settings, know a setting of that name to be."""
    found = []
    for entry in entries:
        for own in entry.settings.values():
            if own.name == name:
                found.append(own)
            if own.reference is not None:
                found += [e.settings[name] for e in registry.entries(own.reference).values() if name in e.settings]
    return found


def check_entry(name: str, value, entries: list[Entry]) -> None:
    """Refuse unknown names, and values that no policy, planner or kernel takes."""
    if name in RULES:
        RULES[name](name, value)
        return
    settings = find(name, entries)
    if not settings:
        known = [*RULES, *(n for n in order(entries) if find(n, entries))]
        raise ValueError(registry.unknown("setting", name, known))
    errors = []
    for setting in settings:
        try:
            setting.check(value)
            return
        except (ValueError, TypeError) as error:
            errors.append(error)
    raise errors[0]


def value_of(setting: Setting, raw: Mapping, defaults: Mapping, who: str):
    """A setting's value in canonical form: given, or its default; None if it can be left to the factory."""
    name = setting.name
    default = defaults.get(name, setting.default)
    if setting.reference is not None and not isinstance(default, str | None) and default is not REQUIRED:
        default = None  # the factory's own object, which has no name
    value = raw.get(name, default)
    if value is REQUIRED:
        raise SettingError(name, f"{name} is missing for {who}; give it")
    if value is None and name not in raw:
        return None
    value = named(name, lambda: setting.check(value))
    return NONE if value is None and setting.default is not None else value


def argument(setting: Setting, value):
    """What a factory is given for the value in a cell."""
    return None if setting.optional and value == NONE else value


def _number(name: str, value, rule) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r}")
    rule(name, float(value))
    return float(value)
