"""Differences between policies that met the same curves and the same noise, replication by replication.

What two policies share cancels in the difference, so that it is known far better than either mean. With many
comparisons some look large by chance: `p_holm` is Holm's correction over all that are returned.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from jaxband import registry
from jaxband.simulation.result import paired_interval
from jaxband.sweep.spec import problems, settings
from jaxband.sweep.spec.cells import Cell


def differences(
    cells: list[Cell], values: list[np.ndarray], metric: str, against: str | None = None, confidence: float = 0.95
) -> list[dict]:
    """A row for every two cells of the same environment, or for every cell and each of policy `against`.

    Each has the mean of first − second, its standard error, a confidence interval for it (Student's t), the p-value of
    no difference, and the same after Holm's correction. Policies are named by the settings that vary.
    """
    if against is not None and against not in (known := sorted({cell.settings["policy"] for cell in cells})):
        raise ValueError(registry.unknown("policy", against, known))
    names, world = labels(cells), environment_settings(cells)
    return [
        {name: of_environment(cells[c.first], name) for name in world}
        | {"metric": metric, "first": names[c.first], "second": names[c.second]}
        | dict(zip(Comparison._fields[2:], c[2:], strict=True))
        for c in compare(values, pairs(cells, against), confidence)
    ]


class Comparison(NamedTuple):
    """What is known about the mean of first − second."""

    first: int  # places in the list of cells
    second: int
    replications: int  # that both have
    difference: float
    standard_error: float
    low: float  # confidence interval (Student's t)
    high: float
    p: float  # of no difference
    p_holm: float  # the same, corrected for all that were compared together


def compare(values: list[np.ndarray], pairs: Iterable[tuple[int, int]], confidence: float = 0.95) -> list[Comparison]:
    """The given pairs that have two replications in common, Holm's correction over all of them."""
    both = [(i, j, min(len(values[i]), len(values[j]))) for i, j in pairs]
    rows = [(i, j, n, *paired_interval(values[i][:n] - values[j][:n], confidence)) for i, j, n in both if n >= 2]
    return [Comparison(*row, p) for row, p in zip(rows, holm([row[-1] for row in rows]), strict=True)]


def holm(p: list[float]) -> list[float]:
    """p-values corrected for their number: the i-th smallest of m is multiplied by m − i, and none gets smaller.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = list(p), 0.0
    for rank, index in enumerate(np.argsort(p, kind="stable")):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        corrected[index] = largest
    return corrected


def pairs(cells: list[Cell], against: str | None = None) -> Iterator[tuple[int, int]]:
    """Places of the cells that can be compared, in order: those of the same environment."""
    groups = {}
    for index, cell in enumerate(cells):
        groups.setdefault(cell.environment, []).append(index)
    for group in groups.values():
        if against is None:
            yield from itertools.combinations(group, 2)
        else:
            chosen = [i for i in group if cells[i].settings["policy"] == against]
            yield from ((i, j) for i in group for j in chosen if i not in chosen)


def labels(cells: list[Cell]) -> list[str]:
    """The policy of every cell, with the settings in which it differs from other cells of the same policy."""
    told_apart = {}
    for policy in {cell.settings["policy"] for cell in cells}:
        same = [cell for cell in cells if cell.settings["policy"] == policy]
        names = [name for name in settings.names_in(same) if name not in (*settings.ENVIRONMENT, "policy")]
        told_apart[policy] = [name for name in names if len({repr(cell.settings.get(name)) for cell in same}) > 1]
    return [_label(cell, told_apart[cell.settings["policy"]]) for cell in cells]


def environment_settings(cells: list[Cell]) -> list[str]:
    """What environments are told apart by: their own settings, and those that some problem takes from its cells."""
    taken = {name for cell in cells for name in problems.borrowed(cell.problem, cell.settings)}
    return [
        *settings.ENVIRONMENT,
        *(name for name in settings.names_in(cells) if name in taken - {*settings.ENVIRONMENT}),
    ]


def of_environment(cell: Cell, name: str):
    """The value of such a setting; None if the cell's problem does not take it."""
    return cell.settings.get(name) if name in problems.needed(cell.problem, cell.settings) else None


def _label(cell: Cell, names: list[str]) -> str:
    """What the problem takes from the cell tells environments apart, not policies."""
    values, of_problem = cell.settings, problems.borrowed(cell.problem, cell.settings)
    uses = {name for name in values if name not in of_problem or _policy_uses(cell, name)}
    shown = [name for name in names if name in uses and not settings.is_default_from_other(name, values)]
    return " ".join([values["policy"], *(f"{name}={values[name]}" for name in shown)])


def _policy_uses(cell: Cell, name: str) -> bool:
    if cell.code is not None:
        return False
    entry = registry.entry("policy", cell.settings["policy"])
    return any(name in part.settings for part in settings.parts(entry, cell.settings))
