"""Many replications, compiled once per shape and spread over all devices and processes.

Replication r draws everything from fold_in(key(seed), r) and is computed in a lane of its own. So totals are the same
to the last bit for any batch size, number of devices or processes (`layout`), and a run of N replications is a prefix
of any longer run. A replication sums up its rounds segment by segment, so that memory does not grow with the horizon;
sums over segments and replications are made on the host in float64, while the devices already run the next batches.
"""

import collections
import math
import time
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from jaxband import checks
from jaxband._runtime import devices as runtime_devices
from jaxband._runtime import interrupts, multiprocess
from jaxband._runtime.compile_timer import compile_timer
from jaxband._runtime.progress import bar
from jaxband.base import Policy
from jaxband.planners import subset
from jaxband.problem import Problem
from jaxband.simulation import dispatch, guards
from jaxband.simulation import metrics as all_metrics
from jaxband.simulation.layout import Layout, batches_of_process, default_batch_size, make_layout
from jaxband.simulation.result import Result
from jaxband.simulation.summaries import TrajectoryStats
from jaxband.simulation.upper_bounds import check_bounded, upper_bounds


def monte_carlo(
    policy: Policy,
    problem: Problem,
    *,
    horizon: int,
    replications: int,
    seed: int = 0,
    lookahead: int = 1,
    repeats: bool = True,
    watch: Sequence[str] = (),
    upper_bound: bool = False,
    metrics: Sequence[str] = (),
    devices: Sequence[jax.Device] | None = None,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Totals and cumulative curves of `replications` independent runs.

    With `lookahead` = d > 1 the lookahead regret is taken over blocks of d rounds, against the best sequences, which
    may repeat an arm unless `repeats` is False. `watch` names numbers that the policy describes its plans by, to be
    averaged. With `upper_bound`, the expected total that no policy could exceed is computed from each replication's
    curves. `metrics` names further ones that were registered.

    Runs on all `devices` of this process (default: `jax.local_devices()`), `batch_size` replications side by side on
    each; under `jax.distributed` every process runs its share and all return the whole. `progress` shows a bar
    (default: on a terminal).

    >>> import jaxband as jb
    >>> problem = jb.Problem([[0.0, 0.5, 1.0], [0.3, 0.3, 0.3]], noise=0.1)
    >>> result = jb.monte_carlo(jb.policies.round_robin(2), problem, horizon=100, replications=10)
    >>> result.plays[0].tolist()
    [50, 50]
    """
    began = time.perf_counter()
    horizon = checks.integer("horizon", horizon, minimum=1)
    replications = checks.integer("replications", replications, 1, 2**32)
    seed = checks.integer("seed", seed, 0, 2**32 - 1, remedy="JAX would take it modulo 2³²")
    guards.check_fit(policy, problem)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((policy, problem))):
        raise TypeError("monte_carlo must be called outside of jit and vmap; inside, use jb.simulate")
    if upper_bound:
        check_bounded(problem)
    chosen = _chosen(devices)
    size = default_batch_size(chosen[0], policy.num_arms) if batch_size is None else batch_size
    measured = _metrics(problem, lookahead, repeats, metrics)
    layout = make_layout(horizon, lookahead, measured, tuple(watch), size)
    job = dispatch.make_job(policy, problem, seed, layout)

    batches = batches_of_process(math.ceil(replications / size), jax.process_index(), jax.process_count())
    wanted = range(batches.start * size, min(batches.stop * size, replications))
    chosen = chosen[: max(1, len(batches))]
    collected = _Collector(layout)
    with (
        compile_timer() as compile_seconds,
        bar("replications", len(wanted), progress) as advance,
        interrupts.defer_interrupts(),
    ):
        for _, found in dispatch.run(_works(job, batches, wanted.stop, len(chosen)), chosen):
            collected.add(found)
            advance(found.stop - found.start)
        bound = upper_bounds(problem, seed, wanted.start, wanted.stop).at(horizon) if upper_bound else None
    return Result(
        policy=policy.title(),
        **collected.totals(bound),
        checkpoints=layout.checkpoints(),
        noise=float(problem.noise),
        horizon=horizon,
        lookahead=lookahead,
        seed=seed,
        wall_seconds=time.perf_counter() - began,
        compile_seconds=compile_seconds(),
    )


def _chosen(chosen: Sequence[jax.Device] | None) -> list[jax.Device]:
    if chosen is None:
        runtime_devices.warn_if_cores_idle()
        return jax.local_devices()
    if not len(chosen):
        raise ValueError("devices must name at least one device, got none; leave it out to use all")
    return list(chosen)


def _metrics(problem: Problem, lookahead: int, repeats: bool, names: Sequence[str]) -> tuple[all_metrics.Metric, ...]:
    measured = all_metrics.standard(problem.idle)
    if checks.integer("lookahead", lookahead, minimum=1) > 1:
        if problem.plays not in (None, 1) or problem.may_idle:
            what = f"lookahead must be 1 for problems with several plays, idle rounds or masks, got {lookahead}"
            raise ValueError(what)
        subset(lookahead, repeats).check(problem.num_arms)
        measured += (all_metrics.lookahead(lookahead, bool(repeats)),)
    standard = (*all_metrics.STANDARD, all_metrics.LOOKAHEAD, *all_metrics.BOUND)
    for name in names:
        if name in standard:
            raise ValueError(f"metrics must name further metrics, got {name!r}, which has an argument of its own")
    return measured + all_metrics.own(tuple(names))


def _works(job: dispatch.Job, batches: range, stop: int, num_devices: int) -> Iterator[dispatch.Work]:
    """The batches in stretches, spread evenly over the devices at every step."""
    size, per_device = job.layout.batch_size, job.layout.batches_per_dispatch
    for start in range(batches.start, batches.stop, num_devices * per_device):
        now = min(batches.stop - start, num_devices * per_device)
        for device in range(num_devices):
            first, last = (start + now * d // num_devices for d in (device, device + 1))
            if first < last:
                yield dispatch.Work(None, job, first * size, min(last * size, stop))


class _Collector:
    """Results of replications as they come off the devices, in order."""

    def __init__(self, layout: Layout) -> None:
        self._metrics = [metric.name for metric in layout.metrics]
        self._parts = collections.defaultdict(list)  # [n, ...] each
        self._stats = collections.defaultdict(TrajectoryStats)

    def add(self, found: dispatch.Measured) -> None:
        self._parts["plays"].append(found.plays)
        self._parts["fingerprint"].append(found.fingerprint.astype(np.float64))
        for name, sums in found.watched.items():
            self._parts["watched " + name].append(np.sum(sums, axis=1, dtype=np.float64))
        for metric, sums in ((m, found.sums[m]) for m in self._metrics):
            cumulative = np.cumsum(sums, axis=1, dtype=np.float64)
            self._parts["total " + metric].append(cumulative[:, -1].copy())  # a view would keep all segments alive
            self._stats[metric].add(cumulative)

    def totals(self, upper_bound: np.ndarray | None) -> dict:
        """Everything of all processes."""
        local = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        if upper_bound is not None and local:
            local["upper_bound"] = upper_bound
        local |= {
            f"stats {metric} {name}": x for metric, stats in self._stats.items() for name, x in stats.arrays().items()
        }
        per_process = [arrays for arrays in multiprocess.all_gather(local) if "plays" in arrays]
        names = [name for name in per_process[0] if not name.startswith("stats ")]
        joined = {name: np.concatenate([arrays[name] for arrays in per_process]) for name in names}
        totals = _strip_prefix("total ", joined)
        stats = {
            metric: TrajectoryStats.merged([_strip_prefix(f"stats {metric} ", arrays) for arrays in per_process])
            for metric in totals
        }
        with np.errstate(invalid="ignore"):
            watched = {name: x[:, 0] / x[:, 1] for name, x in _strip_prefix("watched ", joined).items()}
        return {
            "totals": totals,
            "trajectory_stats": stats,
            "watched": watched,
            "plays": joined["plays"],
            "fingerprint": joined["fingerprint"],
            "upper_bound": joined.get("upper_bound"),
        }


def _strip_prefix(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
