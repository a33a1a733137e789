"""Statistics over replications, on the host and in float64: summaries of totals, and bands of cumulative curves."""

from typing import NamedTuple

import numpy as np

BAND_REPLICATIONS = 4096  # percentiles of curves come from the first so many replications; means and errors from all


class Summary(NamedTuple):
    """One metric over all replications."""

    mean: float
    standard_error: float  # of the mean; nan for a single replication
    p05: float  # 5th percentile of the replications, not a confidence interval of the mean
    median: float
    p95: float  # 95th percentile


class Band(NamedTuple):
    """A cumulative metric at the checkpoints, [C] each."""

    mean: np.ndarray
    standard_error: np.ndarray
    p05: np.ndarray  # 5th percentile
    p95: np.ndarray  # 95th percentile


def summarize(values: np.ndarray) -> Summary:
    """Mean, its standard error, and the 5th, 50th and 95th percentiles of values [R].

    >>> summarize(np.array([1.0, 2.0, 3.0])).mean
    2.0
    """
    values = np.asarray(values, np.float64)
    low, median, high = np.percentile(values, [5, 50, 95])
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return Summary(float(values.mean()), float(error), float(low), float(median), float(high))


class TrajectoryStats:
    """Gathers cumulative curves [n, C], replications in order, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self._count, self._centre, self._sum, self._squares, self._kept = 0, 0.0, 0.0, 0.0, []

    def add(self, curves: np.ndarray) -> None:
        curves = np.asarray(curves, np.float64)
        if self._count == 0:
            self._centre = curves[0].copy()  # sums of squares around a typical curve do not cancel
        away = curves - self._centre
        if self._count < BAND_REPLICATIONS:
            kept = curves[: BAND_REPLICATIONS - self._count]
            self._kept.append(kept if len(kept) == len(curves) else kept.copy())  # a view would keep all of it alive
        self._add_sums(len(curves), away.sum(axis=0), (away**2).sum(axis=0))

    def _add_sums(self, count: int, total: np.ndarray, squares: np.ndarray) -> None:
        self._count, self._sum, self._squares = self._count + count, self._sum + total, self._squares + squares

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was gathered, to be sent or stored; none if nothing was."""
        if self._count == 0:
            return {}
        return {
            "count": np.array(self._count),
            "centre": self._centre,
            "sum": self._sum,
            "squares": self._squares,
            "kept": np.concatenate(self._kept),
        }

    @classmethod
    def merged(cls, parts: list[dict[str, np.ndarray]]) -> "TrajectoryStats":
        """Merge accumulators, as if their replications had been added in order."""
        whole = cls()
        whole._centre = parts[0]["centre"]
        for part in parts:
            count, shift = int(part["count"]), part["centre"] - whole._centre
            if whole._count < BAND_REPLICATIONS:
                whole._kept.append(part["kept"][: BAND_REPLICATIONS - whole._count])
            squares = part["squares"] + 2.0 * shift * part["sum"] + count * shift**2
            whole._add_sums(count, part["sum"] + count * shift, squares)
        return whole

    def band(self) -> Band:
        mean_away = self._sum / self._count
        low, high = np.percentile(np.concatenate(self._kept), [5, 95], axis=0)
        if self._count == 1:
            return Band(self._centre + mean_away, np.full_like(mean_away, np.nan), low, high)
        variance = np.maximum(self._squares - self._count * mean_away**2, 0.0) / (self._count - 1)
        return Band(self._centre + mean_away, np.sqrt(variance / self._count), low, high)
