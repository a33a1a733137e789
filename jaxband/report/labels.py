"""Names of settings, metrics, policies and cells for people: only what tells cells apart, in words, with units.

The words come from the registry, where every policy, planner, kernel and metric describes itself.
"""

from jaxband import registry
from jaxband.sweep import paired
from jaxband.sweep.paired import of_environment
from jaxband.sweep.spec import problems, settings
from jaxband.sweep.spec.cells import Cell


def metric(name: str) -> str:
    """A metric in words; a user's own by its function's name."""
    known = registry.entries("metric")
    return known[name].label if name in known else name.partition(":")[2] or name


def lower_is_better(name: str) -> bool:
    known = registry.entries("metric")
    return bool(name in known and known[name].about.get("lower_is_better"))


def remark(name: str) -> str:
    """What a metric can and cannot tell; empty if there is nothing to say."""
    known = registry.entries("metric")
    return known[name].about.get("remark", "") if name in known else ""


def word(name: str) -> str:
    return _word_and_unit(name)[0]


def axis(name: str) -> str:
    """A setting as the label of an axis or a column: its word, with the unit."""
    shown, unit = _word_and_unit(name)
    return f"{shown} ({unit})" if unit else shown


def _word_and_unit(name: str) -> tuple[str, str]:
    if name in settings.WORDS:
        return settings.WORDS[name]
    for kind in registry.KINDS:
        for entry in registry.entries(kind).values():
            if name in entry.words:
                return entry.words[name]
    return name.replace("_", " "), ""


def value(name: str, given) -> str:
    """A setting's value by itself."""
    if given is None:
        return "–"
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, float):
        return f"{given:g}"
    if name in registry.KINDS and given in registry.entries(name):
        return registry.entry(name, given).label
    return given if name in ("problem", "policy") else str(given).replace("_", " ")


def said(name: str, given) -> str:
    """A setting and its value in a sentence: "lengthscale 4", "no repeats"."""
    if isinstance(given, bool):
        return word(name) if given else f"no {word(name)}"
    shown, unit = _word_and_unit(name)
    if given == settings.NONE:
        return f"{shown}: none"
    if shown.endswith(" every"):
        return f"{shown} {value(name, given)} {unit}"
    return value(name, given) if name in ("policy", "problem", "planner") else f"{shown} {value(name, given)}"


def policies(cells: list[Cell]) -> list[str]:
    """The policy of every cell, as deep as it looks, with what else tells it apart from others in its environment."""
    varying = _varying(cells)
    labels = []
    for cell in cells:
        known = {"policy", "depth", *settings.ENVIRONMENT, *borrowed(cell)}
        names = [n for n in varying[cell.settings["policy"]] if n not in known and n in cell.settings]
        extra = [said(n, cell.settings[n]) for n in names if not settings.is_default_from_other(n, cell.settings)]
        labels.append(", ".join([_policy(cell.settings), *extra]))
    return labels


def _policy(values: dict) -> str:
    name = value("policy", values["policy"])
    if "depth" not in values:
        return name
    return f"{values['depth']}{name}" if name.startswith("RGP") else f"{name}, {values['depth']} ahead"


def _varying(cells: list[Cell]) -> dict[str, list[str]]:
    """For every policy, the settings in which its cells differ."""
    found = {}
    for policy in {cell.settings["policy"] for cell in cells}:
        same = [cell for cell in cells if cell.settings["policy"] == policy]
        names = settings.names_in(same)
        found[policy] = [n for n in names if len({repr(cell.settings.get(n)) for cell in same}) > 1]
    return found


def borrowed(cell: Cell) -> tuple[str, ...]:
    """Settings of the cell that its problem depends on."""
    return problems.borrowed(cell.problem, cell.settings)


def environments(cells: list[Cell]) -> list[str]:
    """What every cell's policy was up against, as far as it differs; at least the name of the problem."""
    possible = paired.environment_settings(cells)
    given = {n: {repr(x) for cell in cells if (x := of_environment(cell, n)) is not None} for n in possible}
    varying = [n for n in possible if len(given[n]) > 1]
    return [
        ", ".join(said(n, x) for n in varying if (x := of_environment(cell, n)) is not None) or cell.settings["problem"]
        for cell in cells
    ]
