"""The manifest of a results directory: what is to be in it, and how a new spec may differ from an old one."""

import dataclasses
import json

from jaxband.sweep.spec.cells import SCHEMA, Cell, canonical_json, digest
from jaxband.sweep.spec.spec import Spec, SpecError

COMMON = ("metrics", "metric_code", "trajectories", "lookahead")  # what all cells of a sweep share


class SchemaError(SpecError):
    """A directory that is whole, but not in a format that this version reads."""


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Complete in itself: needs neither the TOML file nor the CSV files and modules that it came from."""

    name: str
    replications: int
    metrics: tuple[str, ...]
    metric_code: tuple[str, ...]  # digests of the user's own
    trajectories: int  # kept of every cell
    lookahead: int
    problems: dict[str, dict]
    cells: tuple[Cell, ...]

    def to_bytes(self) -> bytes:
        """One canonical JSON document, with its own SHA-256."""
        cells = [{"settings": cell.settings, "code": cell.code} for cell in self.cells]
        document = {
            "schema": SCHEMA,
            "name": self.name,
            "replications": self.replications,
            **{name: getattr(self, name) for name in COMMON},
            "problems": self.problems,
            "cells": sorted(cells, key=canonical_json),
        }
        return canonical_json(document | {"sha256": digest(document)}).encode() + b"\n"


def make_manifest(spec: Spec) -> Manifest:
    cells = spec.cells()
    definitions = {cell.settings["problem"]: cell.problem for cell in cells}
    common = {name: getattr(cells[0], name) for name in COMMON}
    return Manifest(spec.name, spec.replications, **common, problems=definitions, cells=tuple(cells))


def from_bytes(content: bytes) -> Manifest:
    """The inverse of `Manifest.to_bytes`. Raises ValueError if a byte has changed."""
    try:
        document = json.loads(content)
        if document.pop("sha256") != digest(document):
            raise ValueError("its SHA-256 is not the one it was written with")
        if document["schema"] != SCHEMA:
            raise SchemaError(
                f"the directory was written by another version of jaxband (schema {document['schema']}; this one has "
                f"{SCHEMA}): use that version, or another directory"
            )
        common = {name: document[name] for name in COMMON}
        common |= {name: tuple(common[name]) for name in ("metrics", "metric_code")}
        definitions = document["problems"]
        cells = tuple(
            Cell(c["settings"], definitions[c["settings"]["problem"]], c["code"], **common) for c in document["cells"]
        )
        return Manifest(document["name"], document["replications"], **common, problems=definitions, cells=cells)
    except SchemaError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"spec.json is damaged: {error}") from None


def check_extends(new: Manifest, old: Manifest) -> None:
    """Cells and replications may be added, a user's code edited; anything else is refused with the difference."""
    differences = [
        f"{key} is {getattr(old, key)!r} there, {getattr(new, key)!r} here"
        for key in ("name", "metrics", "trajectories", "lookahead")
        if getattr(new, key) != getattr(old, key)
    ]
    if new.replications < old.replications:
        differences.append(f"replications is {old.replications} there, {new.replications} here")
    kept = {cell.without_code for cell in new.cells}
    gone = [cell for cell in old.cells if cell.without_code not in kept]
    if gone and not any(getattr(new, key) != getattr(old, key) for key in ("metrics", "trajectories", "lookahead")):
        differences += _differences(gone, new, old)
    if differences:
        remedy = "cells and replications can be added, nothing can be changed; use another directory"
        raise SpecError(f"the directory holds another sweep: {'; '.join(differences)}. {remedy}")


def of_other_code(new: Manifest, old: Manifest) -> dict[str, str]:
    """Cells of the old manifest whose code was edited since: why their results must not be used, by identity."""
    present, same = {cell.identity for cell in new.cells}, {cell.without_code for cell in new.cells}
    return {
        cell.identity: f"holds results of other code: that of policy {cell.settings['policy']!r}, its problem or a "
        "metric was edited since"
        for cell in old.cells
        if cell.identity not in present and cell.without_code in same
    }


def _differences(gone: list[Cell], new: Manifest, old: Manifest) -> list[str]:
    """Why cells are gone: settings whose values changed, problems that were redefined, or else the cells themselves."""
    differences = []
    for name in sorted({name for cell in gone for name in cell.settings}):
        there, here = ({canonical_json(cell.settings.get(name)) for cell in m.cells} for m in (old, new))
        if not there <= here:
            differences.append(f"{name} is {', '.join(sorted(there))} there, {', '.join(sorted(here))} here")
    for name in sorted(old.problems.keys() & new.problems.keys()):
        if old.problems[name] != new.problems[name]:
            differences.append(f"problem {name!r} is defined differently")
    return differences or [f"{len(gone)} cells are missing here, such as {canonical_json(gone[0].settings)}"]
