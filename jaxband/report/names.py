"""Names of settings, metrics, policies and cells for people: only what tells cells apart, in words, with units."""

from jaxband.sweep import problems, settings
from jaxband.sweep.cells import Cell

METRICS = {
    "total_reward": "total reward",
    "expected_reward": "expected reward",
    "instantaneous_regret": "instantaneous regret",
    "lookahead_regret": "lookahead regret",
}
LOWER_IS_BETTER = ("instantaneous_regret", "lookahead_regret")
POLICIES = {
    "rgp_ucb": "RGP-UCB",
    "rgp_ts": "RGP-TS",
    "rgp_pointwise": "RGP-pointwise",
    "rogue_ucb_tuned": "RogueUCB-Tuned",
    "ucb_z": "UCB-Z",
}
WORDS = {  # name -> word, unit
    "num_arms": ("arms", ""),
    "z_max": ("longest rest", "rounds"),
    "z_init": ("first rest", "rounds"),
    "horizon": ("horizon", "rounds"),
    "lookahead": ("regret lookahead", "rounds"),
    "depth": ("depth", "plays"),
    "width": ("width", "partial plans kept"),
    "budget": ("budget", "nodes per plan"),
    "commit": ("commit", "plays"),
    "nu": ("ν", ""),
    "period": ("period", "rounds"),
    "lengthscale": ("lengthscale", "rounds"),
    "policy_noise": ("assumed noise", ""),
    "warm_up": ("warm-up", "rounds"),
    "alpha": ("α", ""),
    "alpha_scale": ("α scale", ""),
    "beta": ("β", ""),
    "learn": ("learns every", "plans"),
    "fade": ("fading", ""),
    "labels": ("planner's labels", ""),
}


def word(name: str) -> str:
    return WORDS.get(name, (name.replace("_", " "), ""))[0]


def axis(name: str) -> str:
    """A setting as the label of an axis or a column: its word, with the unit."""
    unit = WORDS.get(name, ("", ""))[1]
    return f"{word(name)} ({unit})" if unit else word(name)


def value(name: str, given) -> str:
    """A setting's value by itself."""
    if given is None:
        return "–"
    if name == "learn" and given == 0:
        return "never"
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, float):
        return f"{given:g}"
    if name == "policy":
        return POLICIES.get(given, given.replace("_", " "))
    return given if name == "problem" else str(given).replace("_", " ")


def said(name: str, given) -> str:
    """A setting and its value in a sentence: "lengthscale 4", "no repeats"."""
    if isinstance(given, bool):
        return word(name) if given else f"no {word(name)}"
    if name == "learn":
        return f"learns every {given} plans" if given else "fixed kernel"
    return value(name, given) if name in ("policy", "problem", "planner") else f"{word(name)} {value(name, given)}"


def policies(cells: list[Cell]) -> list[str]:
    """The policy of every cell, as deep as it looks, with what else tells it apart from others in its environment."""
    varying = _varying(cells)
    labels = []
    for cell in cells:
        known = {"policy", "depth", *settings.ENVIRONMENT, *borrowed(cell)}
        names = [n for n in varying[cell.settings["policy"]] if n not in known and n in cell.settings]
        extra = [said(n, cell.settings[n]) for n in names if not settings.follows(n, cell.settings)]
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
        same = [cell.settings for cell in cells if cell.settings["policy"] == policy]
        found[policy] = [n for n in settings.SETTINGS if len({repr(values.get(n)) for values in same}) > 1]
    return found


def borrowed(cell: Cell) -> tuple[str, ...]:
    """Settings of the cell that its problem depends on."""
    return problems.borrowed(cell.problem, cell.settings.get("kernel", ""))


def environments(cells: list[Cell]) -> list[str]:
    """What every cell's policy was up against, as far as it differs; at least the name of the problem."""
    possible = [n for n in settings.SETTINGS if n in settings.ENVIRONMENT or any(n in borrowed(c) for c in cells)]
    given = {n: {repr(x) for cell in cells if (x := _of_problem(cell, n)) is not None} for n in possible}
    varying = [n for n in possible if len(given[n]) > 1]
    return [
        ", ".join(said(n, x) for n in varying if (x := _of_problem(cell, n)) is not None) or cell.settings["problem"]
        for cell in cells
    ]


def _of_problem(cell: Cell, name: str):
    return cell.settings.get(name) if name in settings.ENVIRONMENT or name in borrowed(cell) else None
