"""What a cell may say: the name, the rule and the default of every setting, and which of them a policy uses.

A setting that a policy does not use is left out of its cells, so that `policy = ["rgp_ts", "random"]` times ten
lengthscales is eleven cells, not twenty.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from jaxband import checks
from jaxband.planners.optimistic import BOUNDS
from jaxband.recovery import FAMILIES

REQUIRED = object()


class Setting(NamedTuple):
    check: Callable[[str, Any], Any]  # (name, value) -> the value in one canonical form; ValueError or TypeError
    default: Any = REQUIRED


def whole(minimum: int, maximum: int | None = None) -> Callable:
    return lambda name, value: checks.whole_number(name, value, minimum, maximum)


def number(rule: Callable[[str, Any], None]) -> Callable:
    def check(name, value):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number, got {value!r}")
        rule(name, float(value))
        return float(value)

    return check


def flag(name: str, value) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, got {value!r}")
    return value


def word(choices: Iterable) -> Callable:
    choices = list(choices)

    def check(name, value):
        if value not in choices or isinstance(value, bool):
            rule = f"{name} must be one of {', '.join(map(str, choices))}"
            raise ValueError(f"{rule}; got {value!r}{nearest(value, choices)}")
        return choices[choices.index(value)]

    return check


def plays(name: str, value):
    """A number of plays, or "plan" for all of the plan."""
    return value if value == "plan" else checks.whole_number(name, value, 1, remedy='or "plan" for all of the plan')


KERNEL_USES = {
    "squared_exponential": ("lengthscale", "variance"),
    "matern": ("nu", "lengthscale", "variance"),
    "periodic": ("period", "lengthscale", "variance"),
    "linear": ("variance", "offset"),
    "constant": ("variance",),
}
PLANNER_USES = {
    "exhaustive": ("depth", "repeats"),
    "subset": ("depth", "repeats", "labels"),
    "beam": ("depth", "width"),
    "optimistic": ("depth", "budget", "bound"),
}
GAUSSIAN = ("kernel", "planner", "commit", "policy_noise", "warm_up", "learn")
POLICY_USES = {
    "rgp_ucb": (*GAUSSIAN, "noisy_variance", "alpha", "alpha_scale"),
    "rgp_ts": (*GAUSSIAN, "noisy_variance"),
    "rgp_pointwise": (*GAUSSIAN, "beta", "fade", "end_values"),
    "recommended": ("kernel", "policy_noise", "learn"),
    "rogue_ucb_tuned": ("family", "policy_noise"),
    "ucb_z": ("policy_noise",),
    "oracle": ("planner", "commit"),
    "random": (),
    "round_robin": (),
}
POLICY_DEFAULTS = {"rgp_pointwise": {"planner": "subset", "depth": 3, "commit": 1}}  # where they are its own
ENVIRONMENT = ("problem", "num_arms", "z_max", "noise", "z_init", "horizon", "seed")
FOLLOWS = {"commit": "depth", "lookahead": "depth", "policy_noise": "noise"}  # whose value is the default
NUMBERS = {  # change no shape, but for what they do to the rank of a kernel
    *("problem", "noise", "z_init", "seed", "lengthscale", "variance", "offset", "period"),
    *("policy_noise", "noisy_variance", "warm_up", "alpha", "alpha_scale", "beta"),
}
KERNEL_SETTINGS = ("kernel", "nu", "period", "lengthscale", "variance", "offset")

SETTINGS = {
    "problem": Setting(lambda name, value: value),  # checked against the problems that the spec defines
    "policy": Setting(word(POLICY_USES)),
    "num_arms": Setting(whole(1)),
    "z_max": Setting(whole(0)),
    "noise": Setting(number(checks.non_negative), 0.1),
    "z_init": Setting(whole(0), 0),
    "horizon": Setting(whole(1)),
    "seed": Setting(whole(0, 2**32 - 1), 0),
    "lookahead": Setting(whole(1), None),  # None: see FOLLOWS
    "planner": Setting(word(PLANNER_USES), "exhaustive"),
    "depth": Setting(whole(1), 1),
    "repeats": Setting(flag, True),
    "labels": Setting(whole(1), 16),
    "width": Setting(whole(1), 16),
    "budget": Setting(whole(1)),
    "bound": Setting(word(BOUNDS), BOUNDS[0]),
    "commit": Setting(plays, "plan"),
    "kernel": Setting(word(KERNEL_USES), "squared_exponential"),
    "nu": Setting(word((0.5, 1.5, 2.5))),
    "period": Setting(number(checks.positive)),
    "lengthscale": Setting(number(checks.positive)),
    "variance": Setting(number(checks.positive), 1.0),
    "offset": Setting(number(checks.finite), 0.0),
    "policy_noise": Setting(number(checks.positive), None),
    "noisy_variance": Setting(flag, False),
    "warm_up": Setting(whole(0), 0),
    "alpha": Setting(word(("as_written", "published")), "as_written"),
    "alpha_scale": Setting(number(checks.non_negative), 1.0),
    "learn": Setting(whole(0), 0),  # plans between two fits of the kernel; 0: it stays as given
    "beta": Setting(number(checks.non_negative), 2.3),
    "fade": Setting(flag, False),  # does optimism fade to nothing at the horizon?
    "end_values": Setting(flag, True),
    "family": Setting(word(FAMILIES)),  # of the curves that a policy fits; by default the problem's
}


def checked(name: str, value):
    """`value` in canonical form. Unknown names and impossible values are refused."""
    if name not in SETTINGS:
        raise ValueError(unknown("setting", name, SETTINGS))
    return SETTINGS[name].check(name, value)


def unknown(what: str, name, names: Iterable) -> str:
    """What to say about a name that is none of `names`."""
    return f"unknown {what} {name!r}{nearest(name, names) or '; there are ' + ', '.join(map(str, names))}"


def nearest(name, names: Iterable) -> str:
    """A hint at the name that was meant, "RGP-TS" for "rgp_ts", say; empty if none is close."""
    written = str(name).lower().replace("-", "_")
    close = difflib.get_close_matches(written, [str(n) for n in names], n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def follows(name: str, values: dict) -> bool:
    """Is a setting what it is by default because another one is what it is?"""
    return name in FOLLOWS and values.get(name) == values.get(FOLLOWS[name], 1)
