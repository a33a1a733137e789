"""Differences between policies that met the same curves and the same noise, replication by replication.

What two policies share cancels in the difference, so that it is known far better than either mean. With many
comparisons some look large by chance: `p_holm` is Holm's correction over all that are returned.
"""

import itertools

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
    rows, names = [], labels(cells)
    for i, j in _pairs(cells, against):
        n = min(len(values[i]), len(values[j]))
        if n < 2:
            continue
        where = {name: cells[i].settings[name] for name in settings.ENVIRONMENT}
        rows.append(where | {"metric": metric, "first": names[i], "second": names[j], "replications": n})
        rows[-1] |= _compare(values[i][:n] - values[j][:n], confidence)
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = p
    return rows


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


def _pairs(cells: list[Cell], against: str | None):
    """Indices of the cells to compare, in order."""
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
