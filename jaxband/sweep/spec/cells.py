"""Cells: every combination of a grid, each with the settings that matter to it and no others, in one canonical form."""

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping

from jaxband import registry
from jaxband.base import PolicyError
from jaxband.sweep.spec import build, problems, settings, user_code
from jaxband.sweep.spec.catalog import Known
from jaxband.sweep.spec.settings import SettingError, named, value_of

SCHEMA = 4  # of cells and result files; a change that makes old results wrong must raise it


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
    code: str | None  # digest of the user's code that the policy is made by; None: the library's own
    metrics: tuple[str, ...]
    metric_code: tuple[str | None, ...]  # the same of every metric beyond the library's usual ones, in order
    trajectories: int  # how many replications, the first ones, have theirs kept
    lookahead: int  # rounds per block of the lookahead regret; 1: none is taken

    def document(self) -> dict:
        """All that its results depend on, but the number of replications, as plain data."""
        return dataclasses.asdict(self)

    @functools.cached_property
    def identity(self) -> str:
        """What its results depend on, hashed."""
        return digest([SCHEMA, self.document()])

    @functools.cached_property
    def without_code(self) -> str:
        """The same, whatever the user's code."""
        problem = {key: value for key, value in self.problem.items() if key != "sha256"}
        return digest([SCHEMA, self.document() | {"code": None, "metric_code": (), "problem": problem}])

    @functools.cached_property
    def environment(self) -> str:
        """Cells of the same environment meet the same curves and the same noise in every replication."""
        names = problems.needed(self.problem, self.settings)
        return canonical_json([{name: self.settings[name] for name in names}, self.problem])

    def sort_key(self) -> list:
        """Settings in a fixed order; numbers by size; what is absent comes first."""
        names = settings.order()
        values = [self.settings.get(name) for name in [*names, *sorted(self.settings.keys() - set(names))]]
        return [(value is not None, *settings.rank(value)) for value in values]

    def policy(self, rank: int | None = None):
        """The policy, made from the settings. `rank` pads the root of its posterior, if it has one."""
        if self.code is None:
            return build.policy(registry.entry("policy", self.settings["policy"]), self.settings, rank)
        entry = registry.entry_of("policy", user_code.function_of(self.code), name=self.settings["policy"])
        return build.policy(entry, self.settings, rank)


def expand(
    tables: list[dict], shared: dict, definitions: dict, policies: Mapping[str, Known], kept: tuple
) -> list[Cell]:
    """The cells of all tables, without repetition; `kept` are metrics, their code, trajectories and lookahead.

    A refusal is a SettingError whose key is (table number, setting).
    """
    cells = {}
    for number, table in enumerate(tables):
        try:
            for values in _combinations(table, shared, definitions, policies):
                cell = Cell(values, definitions[values["problem"]], policies[values["policy"]].code, *kept)
                cells.setdefault(cell.identity, cell)
        except SettingError as error:
            raise SettingError((number, error.key), str(error)) from None
    return list(cells.values())


def _combinations(table: dict, shared: dict, definitions: dict, policies: Mapping[str, Known]) -> Iterator[dict]:
    """The canonical settings of every combination of a table's lists; a setting that none of them uses is refused."""
    choices = {"problem": list(definitions)} | {
        name: value if isinstance(value, list | tuple) else [value] for name, value in table.items()
    }
    entries = [known.entry for known in policies.values()] + problems.own_entries(definitions.values())
    for name, values in choices.items():
        if not values:
            raise SettingError(name, f"{name} must list at least one value, got none")
        for value in values:
            _check_choice(name, value, definitions, policies, entries)
    used = set()
    for combination in itertools.product(*choices.values()):
        raw = shared | dict(zip(choices, combination, strict=True))
        if "policy" not in raw:
            raise SettingError("policy", f"policy is missing; it is one or several of {', '.join(policies)}")
        definition, known = definitions[raw["problem"]], policies[raw["policy"]]
        values = canonical(raw, definition, known)
        parts = [*settings.parts(known.entry, values), *problems.own_entries([definition])]
        used |= values.keys() | {name for part in parts for name in part.settings}
        yield values
    for name in choices:
        if name not in used:
            raise SettingError(name, f"{name} is used by no policy, planner, kernel or problem here; remove it")


def _check_choice(name: str, value, definitions: dict, policies: Mapping[str, Known], entries: list) -> None:
    named(name, lambda: settings.check_entry(name, value, entries))
    if name == "problem" and (not isinstance(value, str) or value not in definitions):
        raise SettingError(name, registry.unknown("problem", value, definitions))
    if name == "policy" and (not isinstance(value, str) or value not in policies):
        what = f"policy must be one of {', '.join(policies)}"
        raise SettingError(name, f"{what}; got {value!r}{registry.nearest(value, policies)}")


def canonical(raw: dict, definition: dict, known: Known) -> dict:
    """The settings that matter for raw["policy"] on the defined problem, checked, defaults written out."""
    entry, who = known.entry, f"policy {raw['policy']!r} on problem {raw['problem']!r}"
    for name, value in known.fixed.items():
        if raw.setdefault(name, value) != value:
            raise SettingError(name, f"{name} is fixed to {value!r} for policy {raw['policy']!r}, got {raw[name]!r}")
    fixed = dict(zip(("num_arms", "z_max"), problems.shape(definition) or (), strict=False))
    for name, size in fixed.items():
        if size is not None and raw.setdefault(name, size) != size:
            raise SettingError(name, f"{name} must be {size} for problem {raw['problem']!r}, got {raw[name]}")
    if definition.get("family") in registry.names("family"):
        raw.setdefault("family", definition["family"])
    values = {"policy": raw["policy"]}
    for name in settings.ENVIRONMENT:
        if (value := raw.get(name, settings.DEFAULTS.get(name))) is None:
            raise SettingError(name, f"{name} is missing for {who}; give it")
        values[name] = named(name, lambda n=name, v=value: settings.RULES[n](n, v))
    values |= problems.borrow(definition, raw, entry.defaults, who)
    if "noise" in entry.asks_for:
        told = raw.get("policy_noise", values["noise"])
        values["policy_noise"] = named("policy_noise", lambda: settings.RULES["policy_noise"]("policy_noise", told))
    _take(entry, raw, entry.defaults, values, who)
    for part in settings.parts(entry, values)[1:]:
        _take(part, raw, entry.defaults, values, who)
    _check_together(known, values, definition)
    return values


def _take(entry: registry.Entry, raw: dict, defaults: Mapping, values: dict, who: str) -> None:
    """The settings of an entry but the environment's. What the factory's own None says is left out."""
    for name, setting in entry.settings.items():
        if name not in settings.ENVIRONMENT and (value := value_of(setting, raw, defaults, who)) is not None:
            values[name] = value


def _check_together(known: Known, values: dict, definition: dict) -> None:
    """Refuse settings that are possible one by one but not together."""
    if values["z_init"] > values["z_max"]:
        raise SettingError("z_init", f"z_init must be <= z_max = {values['z_max']}, got {values['z_init']}")
    is_own, problem = known.code is not None, None
    if "factory" in definition:
        try:
            problem = problems.build(definition, values)
        except PolicyError as error:
            place = "problems", values["problem"]
            key = _setting_of(error.original, values, definition["fixed"], place) or (*place, "factory")
            raise SettingError(key, f"problem {values['problem']!r}: {error}") from None
    try:
        build.check(known.entry, values, problem, is_own)
    except (PolicyError, ValueError, TypeError) as error:
        key = _setting_of(error, values, known.fixed, ("policies", values["policy"]))
        raise SettingError(key or "policy", f"{error} (policy {values['policy']!r})") from None
    except Exception as error:
        if not is_own:
            raise
        raise SettingError("policy", user_code.told(f"the factory of policy {values['policy']!r}", error)) from None


def _setting_of(error: Exception, values: dict, fixed: Mapping, place: tuple[str, str]) -> str | tuple | None:
    """The setting that a refusal begins with; where it stands, if the table at `place` fixes it."""
    name = next((name for name in values | fixed if str(error).startswith(f"{name} ")), None)
    return (*place, name) if name in fixed else name
