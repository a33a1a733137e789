"""The spec of a results directory, frozen: what is to be in it, and how a new spec may differ from an old one."""

import dataclasses
import json

from jaxband.sweep.cells import SCHEMA, Cell, canonical_json, digest
from jaxband.sweep.spec import Spec, SpecError


class OtherVersion(SpecError):
    """A directory that is whole, but not in a format that this version reads."""


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Complete in itself: needs neither the TOML file nor the CSV files that it came from."""

    name: str
    replications: int
    metrics: tuple[str, ...]
    trajectories: int  # kept of every cell
    problems: dict[str, dict]
    cells: tuple[Cell, ...]

    def to_bytes(self) -> bytes:
        """One canonical JSON document, with its own SHA-256."""
        document = {
            "schema": SCHEMA,
            "name": self.name,
            "replications": self.replications,
            "metrics": list(self.metrics),
            "trajectories": self.trajectories,
            "problems": self.problems,
            "cells": sorted((cell.settings for cell in self.cells), key=canonical_json),
        }
        return canonical_json(document | {"sha256": digest(document)}).encode() + b"\n"


def freeze(spec: Spec) -> Frozen:
    cells = spec.cells()
    definitions = {cell.settings["problem"]: cell.problem for cell in cells}
    return Frozen(spec.name, spec.replications, spec.metrics, spec.trajectories, definitions, tuple(cells))


def from_bytes(content: bytes) -> Frozen:
    """The inverse of `Frozen.to_bytes`. Raises ValueError if a byte has changed."""
    try:
        document = json.loads(content)
        if document.pop("sha256") != digest(document):
            raise ValueError("its SHA-256 is not the one it was written with")
        if document["schema"] != SCHEMA:
            raise OtherVersion(
                f"the directory was written by another version of jaxband (schema {document['schema']}; this one has "
                f"{SCHEMA}): use that version, or another directory"
            )
        kept = tuple(document["metrics"]), document["trajectories"]
        definitions = document["problems"]
        cells = tuple(Cell(values, definitions[values["problem"]], *kept) for values in document["cells"])
        return Frozen(document["name"], document["replications"], *kept, definitions, cells)
    except OtherVersion:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"spec.json is damaged: {error}") from None


def check_extends(new: Frozen, old: Frozen) -> None:
    """Cells and replications may be added; anything else is refused with the difference."""
    differences = [
        f"{key} is {getattr(old, key)!r} there, {getattr(new, key)!r} here"
        for key in ("name", "metrics", "trajectories")
        if getattr(new, key) != getattr(old, key)
    ]
    if new.replications < old.replications:
        differences.append(f"replications is {old.replications} there, {new.replications} here")
    kept = {cell.identity for cell in new.cells}
    gone = [cell for cell in old.cells if cell.identity not in kept]
    if gone and (new.metrics, new.trajectories) == (old.metrics, old.trajectories):
        differences += _differences(gone, new, old)
    if differences:
        remedy = "cells and replications can be added, nothing can be changed; use another directory"
        raise SpecError(f"the directory holds another sweep: {'; '.join(differences)}. {remedy}")


def _differences(gone: list[Cell], new: Frozen, old: Frozen) -> list[str]:
    """Why cells are gone: settings whose values changed, problems that were redefined, or else the cells themselves."""
    differences = []
    for name in sorted({name for cell in gone for name in cell.settings}):
        there, here = ({canonical_json(cell.settings.get(name)) for cell in frozen.cells} for frozen in (old, new))
        if not there <= here:
            differences.append(f"{name} is {', '.join(sorted(there))} there, {', '.join(sorted(here))} here")
    for name in sorted(old.problems.keys() & new.problems.keys()):
        if old.problems[name] != new.problems[name]:
            differences.append(f"problem {name!r} is defined differently")
    return differences or [f"{len(gone)} cells are missing here, such as {canonical_json(gone[0].settings)}"]
