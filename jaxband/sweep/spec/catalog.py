"""The policies that a spec can name: those of the registry, and a user's own with the settings fixed for them."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxband import registry
from jaxband.registry import Entry
from jaxband.sweep.spec import user_code
from jaxband.sweep.spec.settings import NONE, SettingError, named


@dataclasses.dataclass(frozen=True)
class Known:
    """One policy that cells may have."""

    entry: Entry
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # settings that its table gives
    code: str | None = None  # digest of the user's code; None: the library's own


def catalog(definitions: Mapping[str, Any], directory: Path) -> dict[str, Known]:
    """All policies by name. A refusal is a SettingError whose key is (name, setting)."""
    known = {name: Known(entry, code=code_of(entry.factory)) for name, entry in registry.entries("policy").items()}
    for name, definition in definitions.items():
        try:
            known[name] = _own(name, definition, directory)
        except SettingError as error:
            raise SettingError((name, error.key), f"policy {name!r}: {error}") from None
    return known


def _own(name: str, definition, directory: Path) -> Known:
    if callable(definition):
        definition = {"factory": definition}
    if not isinstance(definition, dict) or "factory" not in definition:
        raise SettingError("factory", 'factory is missing; it is "module:function"')
    if name in registry.names("policy"):
        raise SettingError("factory", f"the name is taken by a policy of the library; choose another than {name!r}")
    code, function = named("factory", lambda: load(definition["factory"], directory))
    entry = registry.entry_of("policy", function, name=name)
    return Known(entry, fixed_settings(entry, definition), code)


def fixed_settings(entry: Entry, definition: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a table gives beside its factory, in canonical form."""
    fixed, settings = {}, entry.settings
    for key, value in definition.items():
        if key == "factory":
            continue
        if key not in settings:
            raise SettingError(key, registry.unknown("setting of its factory", key, settings))
        checked = named(key, lambda setting=settings[key], v=value: setting.check(v))
        fixed[key] = NONE if checked is None else checked
    return fixed


def load(factory: str | Callable, directory: Path) -> tuple[str | None, Callable]:
    """A user's function and the digest of its code; None if it has none that could be found again."""
    if isinstance(factory, str):
        code = user_code.from_reference(factory, directory)
        return code.digest, user_code.function_of(code.digest)
    try:
        code = user_code.from_function(factory)
    except user_code.UserCodeError:
        if not callable(factory):
            raise
        return "", factory  # runs here, but cannot be kept: see Spec.check_can_be_kept
    return code.digest, factory


def code_of(factory: Callable) -> str | None:
    """None for the library's own; for what a user registered, the digest of its code."""
    if (getattr(factory, "__module__", None) or "").partition(".")[0] == "jaxband":
        return None
    return load(factory, Path())[0]
