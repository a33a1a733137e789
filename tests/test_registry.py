"""The registry: settings, types and defaults are the factory's own; names are checked; a user's own are like ours."""

from typing import Literal

import pytest

import jaxband as jb
from jaxband import registry
from jaxband.registry import REQUIRED, Setting


def make(
    num_arms: int,
    noise: float,
    width: int,
    *,
    scale: float = 2.0,
    deep: bool = False,
    mode: Literal["fast", "slow"] = "fast",
    word: str = "x",
    limit: int | None = None,
    kernel: jb.kernels.Kernel = None,
    untyped=3.0,
    **rest,
):
    """A factory with a parameter of every kind."""
    return num_arms, noise, width, scale, deep, mode, word, limit, kernel, untyped


ENTRY = registry.entry_of("policy", make)


def test_settings_are_read_from_the_signature():
    settings = ENTRY.settings
    assert ENTRY.asks_for == ("num_arms", "noise")
    assert list(settings) == ["width", "scale", "deep", "mode", "word", "limit", "kernel", "untyped"]
    assert settings["width"].default is REQUIRED and settings["scale"].default == 2.0
    assert (
        settings["limit"].optional
        and settings["kernel"].reference == "kernel"
        and settings["untyped"].types == (float,)
    )
    assert [name for name, setting in settings.items() if setting.is_number] == ["scale", "untyped"]


@pytest.mark.parametrize(
    ("name", "given", "canonical"),
    [
        ("width", 3, 3),
        ("scale", 3, 3.0),
        ("deep", True, True),
        ("mode", "slow", "slow"),
        ("word", "y", "y"),
        ("limit", "none", None),
        ("limit", 4, 4),
        ("kernel", "matern", "matern"),
    ],
)
def test_values_in_canonical_form(name, given, canonical):
    value = ENTRY.settings[name].check(given)
    assert value == canonical and type(value) is type(canonical)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("width", 3.0, "width must be a whole number, got 3.0"),
        ("width", True, "width must be a whole number, got True"),
        ("scale", "3", "scale must be a number, got '3'"),
        ("scale", False, "scale must be a number, got False"),
        ("deep", 1, "deep must be true or false, got 1"),
        ("mode", "fsat", "mode must be one of fast, slow; got 'fsat'; did you mean 'fast'?"),
        ("word", 1, "word must be a text, got 1"),
        ("limit", "many", "limit must be a whole number or \"none\", got 'many'"),
        ("kernel", "martin", "did you mean 'matern'?"),
    ],
)
def test_values_that_do_not_fit_are_refused(name, given, message):
    with pytest.raises((ValueError, TypeError)) as refusal:
        ENTRY.settings[name].check(given)
    assert message in str(refusal.value)


def test_a_factory_is_called_with_what_it_asks_for():
    given = {"num_arms": 2, "z_max": 5, "noise": 0.1, "horizon": 9}
    assert ENTRY.make(given, {"width": 1, "deep": True, "unknown": 4})[:5] == (2, 0.1, 1, 2.0, True)


def test_names_are_checked_and_taken_only_once():
    with pytest.raises(ValueError, match="kind must be one of policy, planner"):
        jb.register("polcy", make)
    with pytest.raises(ValueError, match="name 'random' is taken by another policy"):
        jb.register("policy", make, name="random")
    with pytest.raises(TypeError, match="factory must be a function"):
        jb.register("policy", 3)
    with pytest.raises(ValueError, match="did you mean 'rgp_ts'"):
        registry.entry("policy", "rgp_tz")
    jb.register("policy", make, name="mine", label="Mine")
    try:
        jb.register("policy", make, name="mine")  # a cell of a notebook that is run again
        assert registry.entry("policy", "mine").label == "mine"
    finally:
        registry.unregister("policy", "mine")


def test_everything_in_the_library_describes_itself():
    """A label, settings of known types, a cost for what takes time, an example that can be made."""
    for kind in ("policy", "planner", "kernel", "family"):
        for name, entry in registry.entries(kind).items():
            assert entry.label and all(isinstance(setting, Setting) for setting in entry.settings.values())
            for setting in entry.settings.values():
                assert setting.types or setting.reference or setting.choices, f"{name}.{setting.name} needs a type"
    for kind in ("policy", "planner"):
        assert all(entry.cost for entry in registry.entries(kind).values())
    for kind in ("policy", "planner", "kernel", "family", "schedule"):
        exported = {"policy": jb.policies, "planner": jb.planners}.get(kind)
        for name in registry.names(kind) if exported else ():
            assert name in exported.__all__
