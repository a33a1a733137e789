"""Cells: every combination of a grid, each with the settings that matter to it and no others, in one canonical form."""

import dataclasses
import functools
import hashlib
import itertools
import json

from jaxband.planners import subset
from jaxband.recovery import FAMILIES
from jaxband.sweep import build, problems, settings
from jaxband.sweep.problems import KeyedError

SCHEMA = 2  # of cells and result files; a change that makes old results wrong must raise it


def canonical_json(value) -> str:
    """The one spelling of a document, so that its hash means something."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@dataclasses.dataclass(frozen=True, eq=False)
class Cell:
    """One policy on one problem."""

    settings: dict  # all that matters, defaults written out
    problem: dict  # the definition that settings["problem"] names
    metrics: tuple[str, ...]
    trajectories: int  # how many replications, the first ones, have theirs kept

    @functools.cached_property
    def identity(self) -> str:
        """What its results depend on, hashed: everything but the number of replications."""
        return digest([SCHEMA, self.settings, self.problem, list(self.metrics), self.trajectories])

    @functools.cached_property
    def environment(self) -> str:
        """Cells of the same environment meet the same curves and the same noise in every replication."""
        open_ones = problems.borrowed(self.problem, self.settings.get("kernel", ""))
        names = (*settings.ENVIRONMENT, *open_ones)
        return canonical_json([{name: self.settings[name] for name in names}, self.problem])

    def sort_key(self) -> list:
        """Settings in a fixed order; numbers by size; what is absent comes first."""
        values = [self.settings.get(name) for name in settings.SETTINGS]
        return [(v is not None, isinstance(v, str), 0 if v is None else v) for v in values]


def expand(tables: list[dict], shared: dict, definitions: dict, kept: tuple) -> list[Cell]:
    """The cells of all tables, without repetition; `kept` are their metrics and number of trajectories.

    A refusal is a KeyedError whose key is (table number, setting).
    """
    cells = {}
    for number, table in enumerate(tables):
        try:
            for values in _combinations(table, shared, definitions):
                cell = Cell(values, definitions[values["problem"]], *kept)
                cells.setdefault(cell.identity, cell)
        except KeyedError as error:
            raise KeyedError((number, error.key), str(error)) from None
    return list(cells.values())


def _combinations(table: dict, shared: dict, definitions: dict):
    """The canonical settings of every combination of a table's lists; a setting that none of them uses is refused."""
    choices = {"problem": list(definitions)} | {
        name: value if isinstance(value, list | tuple) else [value] for name, value in table.items()
    }
    for name, values in choices.items():
        if not values:
            raise KeyedError(name, f"{name} must list at least one value, got none")
        for value in values:
            _check_entry(name, value, definitions)
    used = set()
    for combination in itertools.product(*choices.values()):
        raw = shared | dict(zip(choices, combination, strict=True))
        values = canonical(raw, definitions[raw["problem"]])
        used |= values.keys()
        yield values
    for name in choices:
        if name not in used:
            raise KeyedError(name, f"{name} is used by no policy, planner, kernel or problem here; remove it")


def _check_entry(name: str, value, definitions: dict) -> None:
    try:
        settings.checked(name, value)
    except (ValueError, TypeError) as error:
        raise KeyedError(name, str(error)) from None
    if name == "problem" and (not isinstance(value, str) or value not in definitions):
        raise KeyedError(name, settings.unknown("problem", value, definitions))


def canonical(raw: dict, definition: dict) -> dict:
    """The settings that matter for raw["policy"] on the defined problem, checked, defaults written out."""
    values = {}

    def take(*names: str) -> None:
        for name in names:
            values[name] = _value(name, raw, values)

    fixed = dict(zip(("num_arms", "z_max"), problems.shape(definition) or (), strict=False))
    for name, size in fixed.items():
        if size is not None and raw.setdefault(name, size) != size:
            raise KeyedError(name, f"{name} must be {size} for problem {raw['problem']!r}, got {raw[name]}")
    raw = settings.POLICY_DEFAULTS.get(raw.get("policy"), {}) | raw
    if definition["family"] in FAMILIES:
        raw.setdefault("family", definition["family"])
    take("policy", *settings.ENVIRONMENT)
    uses = settings.POLICY_USES[values["policy"]]
    if "planner" in uses:
        take("planner", *settings.PLANNER_USES[_value("planner", raw, values)])
    if "kernel" in uses:
        take("kernel", *settings.KERNEL_USES[_value("kernel", raw, values)])
    take(*problems.borrowed(definition, _value("kernel", raw, values)))
    take(*(name for name in uses if name not in values), "lookahead")
    _check_together(values)
    return values


def _value(name: str, raw: dict, values: dict):
    """A setting's value: given, or its default, which may depend on the `values` that are already there."""
    setting = settings.SETTINGS[name]
    value = raw.get(name, setting.default)
    if value is settings.REQUIRED:
        raise KeyedError(name, f"{name} is missing for policy {raw['policy']!r} on problem {raw['problem']!r}; give it")
    if value is None or value == "plan":
        value = values.get(settings.FOLLOWS[name], 1)
    try:
        return setting.check(name, value)
    except (ValueError, TypeError) as error:
        raise KeyedError(name, str(error)) from None


def _check_together(values: dict) -> None:
    """Refuse settings that are possible one by one but not together."""
    if values["z_init"] > values["z_max"]:
        raise KeyedError("z_init", f"z_init must be <= z_max = {values['z_max']}, got {values['z_init']}")
    try:
        build.check(values)
    except (ValueError, TypeError) as error:
        named = [name for name in settings.SETTINGS if str(error).startswith(name)]
        raise KeyedError(named[0] if named else "planner", f"{error} (policy {values['policy']!r})") from None
    try:
        subset(values["lookahead"], values.get("repeats", True)).check(values["num_arms"])
    except ValueError as error:
        remedy = "set lookahead, the length of the blocks that the lookahead regret is taken over"
        raise KeyedError("lookahead", f"lookahead: {error}; {remedy}") from None
