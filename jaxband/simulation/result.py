"""What `monte_carlo` returns: totals by replication, cumulative curves, and ways to look at them and compare them."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from jaxband import regret
from jaxband.simulation import metrics
from jaxband.simulation.summaries import Band, Summary, TrajectoryStats, summarize

SAME_CURVES = 1e-4  # of the largest fingerprint: other programs round the last bits otherwise


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Many replications of one policy on one problem; [R] arrays are in replication order."""

    policy: str  # what it is called
    totals: dict[str, np.ndarray]  # [R] by metric
    plays: np.ndarray  # [R, K]; how often each arm was played
    watched: dict[str, np.ndarray]  # [R] each; means over the rounds in which there was a plan
    checkpoints: np.ndarray  # [C]; numbers of rounds at which the `bands` are taken
    trajectory_stats: dict[str, TrajectoryStats]  # what the `bands` are made of
    upper_bound: np.ndarray | None  # [R]; what no policy exceeds in expectation, if asked for
    fingerprint: np.ndarray  # [R]; of the curves
    noise: float
    horizon: int
    lookahead: int
    seed: int
    wall_seconds: float  # all of the call, compilation included
    compile_seconds: float  # tracing, lowering and XLA; 0 when the shape was compiled before

    @property
    def total_reward(self) -> np.ndarray:
        """Noisy rewards, summed over the horizon, [R]."""
        return self.totals["total_reward"]

    @property
    def expected_reward(self) -> np.ndarray:
        """The same without the noise, [R]."""
        return self.totals["expected_reward"]

    @property
    def instantaneous_regret(self) -> np.ndarray:
        """Against the best arm of every round, [R]. More of it may earn more: compare policies by reward."""
        return self.totals["instantaneous_regret"]

    @property
    def lookahead_regret(self) -> np.ndarray:
        """Against the best sequences of `lookahead` rounds, [R]."""
        return self.totals[metrics.LOOKAHEAD if self.lookahead > 1 else "instantaneous_regret"]

    @property
    def replications(self) -> int:
        return len(self.plays)

    @functools.cached_property
    def bands(self) -> dict[str, Band]:
        """Mean and percentiles of the cumulative curve of every metric, at the checkpoints; made when first read."""
        return {metric: stats.band() for metric, stats in self.trajectory_stats.items()}

    @property
    def bound_gap(self) -> np.ndarray:
        """How far each replication stayed below its upper bound, [R]: at least its full-horizon regret."""
        return regret.bound_gap(self.expected_reward, self._bounded())

    @property
    def bound_fraction(self) -> np.ndarray:
        """Expected reward as a fraction of the upper bound, [R]. Meaningful only for a positive bound."""
        return self.expected_reward / self._bounded()

    def _bounded(self) -> np.ndarray:
        if self.upper_bound is None:
            raise ValueError("upper_bound was not computed; call monte_carlo(..., upper_bound=True)")
        return self.upper_bound

    def measured(self) -> dict[str, np.ndarray]:
        """All metrics, [R] each; those against the upper bound if it was asked for."""
        bound = {} if self.upper_bound is None else {name: getattr(self, name) for name in metrics.BOUND}
        return self.totals | bound

    def summary(self) -> dict[str, Summary]:
        """Mean, standard error and percentiles of every metric."""
        return {name: summarize(values) for name, values in self.measured().items()}

    def __repr__(self) -> str:
        lines = [f"{self.policy}: {self.replications:,} replications of {self.horizon:,} rounds, seed {self.seed}"]
        for name, s in self.summary().items():
            digits = max(1, 1 - int(np.floor(np.log10(s.standard_error)))) if s.standard_error > 0 else 4
            digits = min(digits, 6)
            spread = f"5 % {s.p05:.{digits}f}, median {s.median:.{digits}f}, 95 % {s.p95:.{digits}f}"
            lines.append(f"  {name:<21}{s.mean:>12.{digits}f} ± {s.standard_error:.{digits}f}   ({spread})")
        return "\n".join(lines)

    def to_pandas(self):
        """A DataFrame: a row per replication; columns for metrics, what was watched, and the plays of each arm."""
        pandas = _needs("pandas", "a table")
        arms = {f"plays_{arm}": self.plays[:, arm] for arm in range(self.plays.shape[1])}
        columns = self.measured() | {f"watched_{name}": x for name, x in self.watched.items()} | arms
        return pandas.DataFrame(columns, index=pandas.RangeIndex(self.replications, name="replication"))

    def to_xarray(self):
        """A Dataset: metrics over `replication`, plays over `replication` and `arm`, mean curves over `rounds`."""
        xarray = _needs("xarray", "named dimensions")
        data = {name: ("replication", values) for name, values in self.measured().items()}
        data |= {f"watched_{name}": ("replication", values) for name, values in self.watched.items()}
        data["plays"] = (("replication", "arm"), self.plays)
        for name, band in self.bands.items():
            data |= {f"{name}_{part}": ("rounds", values) for part, values in band._asdict().items()}
        attributes = {"policy": self.policy, "horizon": self.horizon, "seed": self.seed, "noise": self.noise}
        return xarray.Dataset(data, {"rounds": self.checkpoints}, attributes)


class PairedDifference(NamedTuple):
    """The mean of first − second over replications that met the same curves and noise."""

    metric: str
    difference: float
    standard_error: float
    low: float  # confidence interval (Student's t)
    high: float
    replications: int


def compare(
    first: Result, second: Result, metric: str = "total_reward", *, confidence: float = 0.95
) -> PairedDifference:
    """How much larger a metric is in `first` than in `second`, replication by replication.

    What both share, curves and noise, cancels: the difference is known far better than either mean. Results that did
    not meet the same curves and noise are refused.
    """
    for name, result in (("first", first), ("second", second)):
        if not isinstance(result, Result):
            raise TypeError(f"{name} must be what monte_carlo returns, got {result!r}")
        if metric not in result.measured():
            there = ", ".join(result.measured())
            raise ValueError(f"metric must be one that both results have, got {metric!r}; {name} has {there}")
    for name in ("seed", "horizon", "noise"):
        ours, theirs = getattr(first, name), getattr(second, name)
        if ours != theirs:
            what = f"results must have met the same curves and noise, got {name} {ours} and {theirs}"
            raise ValueError(f"{what}; run both with the same {name}")
    count = min(first.replications, second.replications)
    if count < 2:
        raise ValueError(f"results must have at least two replications in common, got {count}")
    ours, theirs = first.fingerprint[:count], second.fingerprint[:count]
    scale = max(np.abs(ours).max(), np.abs(theirs).max(), 1e-30)
    if first.plays.shape[1] != second.plays.shape[1] or np.abs(ours - theirs).max() > SAME_CURVES * scale:
        what = "results must have met the same curves and noise, got different curves"
        raise ValueError(f"{what}; run both on the same problem with the same seed")
    difference = first.measured()[metric][:count] - second.measured()[metric][:count]
    return PairedDifference(metric, *paired_interval(difference, confidence)[:4], count)


def paired_interval(difference: np.ndarray, confidence: float) -> tuple[float, float, float, float, float]:
    """Mean, standard error, confidence interval (Student's t) and p-value of no difference, of differences [n]."""
    from scipy import stats  # comes with JAX; slow to import

    n, mean = len(difference), float(difference.mean())
    error = float(difference.std(ddof=1) / np.sqrt(n))
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error > 0 else float(mean == 0)
    return mean, error, mean - half, mean + half, p


def _needs(package: str, what: str):
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f"{what} needs {package}; install it with: pip install 'jaxband[results]'") from None
