"""Differences between policies that met the same curves and the same noise, replication by replication.

What two policies share cancels in the difference, so that it is known far better than either mean. With many
comparisons some look large by chance: `p_holm` is Holm's correction over all that are returned.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from jaxband.sweep import settings
from jaxband.sweep.cells import Cell


def differences(
    cells: list[Cell], values: list[np.ndarray], metric: str, against: str | None = None, confidence: float = 0.95
) -> list[dict]:
    """A row for every two cells of the same environment, or for every cell and each of policy `against`.

    Each has the mean of first − second, its standard error, a confidence interval for it (Student's t), the p-value of
    no difference, and the same after Holm's correction. Policies are named by the settings that vary.
    """
    if against is not None and against not in (known := sorted({cell.settings["policy"] for cell in cells})):
        raise ValueError(settings.unknown("policy", against, known))
    names = labels(cells)
    return [
        {name: cells[c.first].settings[name] for name in settings.ENVIRONMENT}
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
    rows = [(i, j, n, *_compare(values[i][:n] - values[j][:n], confidence).values()) for i, j, n in both if n >= 2]
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


def _compare(difference: np.ndarray, confidence: float) -> dict:
    from scipy import stats  # comes with JAX; slow to import

    n, mean = len(difference), float(difference.mean())
    error = float(difference.std(ddof=1) / np.sqrt(n))
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error > 0 else float(mean == 0)
    return {"difference": mean, "standard_error": error, "low": mean - half, "high": mean + half, "p": p}


def labels(cells: list[Cell]) -> list[str]:
    """The policy of every cell, with the settings in which it differs from other cells of the same policy."""
    told_apart = {}
    for policy in {cell.settings["policy"] for cell in cells}:
        same = [cell.settings for cell in cells if cell.settings["policy"] == policy]
        names = [name for name in settings.SETTINGS if name not in settings.ENVIRONMENT and name in same[0]]
        told_apart[policy] = [name for name in names if len({repr(values.get(name)) for values in same}) > 1]
    return [_label(cell.settings, told_apart[cell.settings["policy"]]) for cell in cells]


def _label(values: dict, names: list[str]) -> str:
    shown = [name for name in names if name in values and not settings.follows(name, values)]
    return " ".join([values["policy"], *(f"{name}={values[name]}" for name in shown)])
