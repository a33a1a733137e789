"""The pipeline that `monte_carlo` and the sweep's workers share: replications side by side on all devices.

A *job* is a policy, a problem and a seed. Jobs that differ only in numbers share one compiled program: their leaves are
stacked, one row per device, and each device runs its own row, batch after batch. Their curves are drawn before that by
another program (`curves`). The next dispatch computes while the results of the last one are taken in. Every
replication is computed in a lane of its own from fold_in(key(seed), r), so that its results are the same to the last
bit whatever runs beside it.
"""

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from jaxband._compiled.dce import eliminate_dead_code
from jaxband._runtime import interrupts
from jaxband.base import Policy, PolicyError
from jaxband.problem import Problem
from jaxband.simulation import curves, rollout
from jaxband.simulation.layout import Layout
from jaxband.simulation.metrics import Stretch
from jaxband.simulation.rollout import ReplicationState, Rounds, begin, faulty_arm, play_rounds, refresh_if_due

# XLA would split large loops over the cores; with one device per core that costs a third of the time.
NO_LOOP_SPLITTING = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}


class Job(NamedTuple):
    """A policy on a problem, made ready to run."""

    policy: Policy
    problem: Problem
    leaves: tuple[np.ndarray, ...]  # of policy, problem without its curves, and key
    draw: curves.Draw  # of its curves
    structure: Any  # around the leaves
    layout: Layout
    compile_key: tuple  # what is compiled for: jobs that share it differ in numbers only


class Work(NamedTuple):
    """Replications start … stop − 1 of a job."""

    tag: Any  # the caller's own
    job: Job
    start: int
    stop: int


class Measured(NamedTuple):
    """What came out of some of a work's replications, in order: [n, ...] each."""

    start: int
    stop: int
    sums: dict[str, np.ndarray]  # [n, C] by metric, per segment
    plays: np.ndarray  # [n, K]
    watched: dict[str, np.ndarray]  # [n, C, 2]; sum and number of rounds, by name
    fingerprint: np.ndarray  # [n]; of the curves


def make_job(policy: Policy, problem: Problem, seed: int, layout: Layout) -> Job:
    """The leaves as NumPy arrays, so that stacking them compiles nothing."""
    leaves, structure = jax.tree.flatten((policy, problem.given(None), curves.key_data(seed)))
    leaves = tuple(np.asarray(leaf) for leaf in leaves)
    shapes = problem.table_shape.shape, *((leaf.shape, leaf.dtype.name) for leaf in leaves)
    compile_key = structure, shapes, layout
    return Job(policy, problem, leaves, curves.make_draw(problem, seed), structure, layout, compile_key)


def run(works: Iterable[Work], devices: Sequence[jax.Device]) -> Iterator[tuple[Work, Measured]]:
    """The results of all works, piece by piece: of one work in order, of several as they are done.

    An arm that cannot be played is raised as a `PolicyError`, once the pieces before it are out.
    """
    mesh, running = Mesh(np.array(devices), ("works",)), None
    for dispatch in _dispatches(works, len(devices)):
        try:
            with _tagged(dispatch.works[0]):
                started = dispatch, dispatch.launch(mesh)
        except PolicyError:
            if running:  # what is done is not lost
                yield from _collect(*running)
            raise
        if running:  # the next dispatch computes while the last one's results are taken in
            yield from _collect(*running)
        running = started
        interrupts.raise_if_interrupted(after=running)
    if running:
        yield from _collect(*running)


class _Dispatch(NamedTuple):
    """One launch of the compiled program: some batches of each of a few works."""

    works: list[Work]
    width: int  # devices; those without a work run nothing
    first: np.ndarray  # [devices]; batch
    count: np.ndarray  # [devices]

    def launch(self, mesh: Mesh) -> dict[str, Any]:
        jobs = [work.job for work in self.works]
        jobs += jobs[:1] * (self.width - len(jobs))
        layout = jobs[0].layout
        size = layout.batch_size, layout.batches_per_dispatch
        drawn = curves.draw([job.draw for job in jobs], self.first, self.count, *size, mesh)
        leaves = tuple(np.stack(rows) for rows in zip(*(job.leaves for job in jobs), strict=True))
        results = _run_works(leaves, drawn.curves, self.first, self.count, jobs[0].structure, layout, mesh)
        return results | {"fingerprint": drawn.fingerprint}


def _dispatches(works: Iterable[Work], width: int) -> Iterator[_Dispatch]:
    """Works that share their compilations run side by side; the order of works is kept."""
    for _, alike in itertools.groupby(works, key=lambda work: (work.job.compile_key, work.job.draw.key)):
        while batch := list(itertools.islice(alike, width)):
            layout = batch[0].job.layout
            idle = [0] * (width - len(batch))
            first = np.array([work.start // layout.batch_size for work in batch] + idle, np.int32)
            stop = np.array([-(-work.stop // layout.batch_size) for work in batch] + idle, np.int32)
            while (first < stop).any():
                count = np.clip(stop - first, 0, layout.batches_per_dispatch).astype(np.int32)
                yield _Dispatch(batch, width, first, count)
                first = (first + count).astype(np.int32)


def _collect(dispatch: _Dispatch, results: dict[str, Any]) -> Iterator[tuple[Work, Measured]]:
    """What a dispatch found out about each of its works."""
    results = jax.tree.map(np.asarray, results)
    for device, work in enumerate(dispatch.works):
        layout, count = work.job.layout, int(dispatch.count[device])
        if not count:
            continue
        begin, row = int(dispatch.first[device]) * layout.batch_size, device * layout.batches_per_dispatch
        start, stop = max(work.start, begin), min(work.stop, begin + count * layout.batch_size)

        def rows(x, row=row, count=count, span=slice(start - begin, stop - begin)):
            return x[row : row + count].reshape(-1, *x.shape[2:])[span]

        mine = jax.tree.map(rows, results)
        with _tagged(work):
            _raise_faults(work, start, mine["fault"])
        yield work, Measured(start, stop, mine["sums"], mine["plays"], mine["watched"], mine["fingerprint"])


@contextlib.contextmanager
def _tagged(work: Work) -> Iterator[None]:
    """A policy's error knows in which work it happened."""
    try:
        yield
    except PolicyError as error:
        error.tag = work.tag
        raise


def _raise_faults(work: Work, start: int, fault: rollout.Fault) -> None:
    bad = np.flatnonzero(fault.round >= 0)
    if bad.size:
        first = int(bad[0])
        arm = fault.arm[first]
        raise faulty_arm(work.job.policy, work.job.problem, int(fault.round[first]), arm, start + first)


@functools.partial(jax.jit, static_argnames=("structure", "layout", "mesh"), compiler_options=NO_LOOP_SPLITTING)
def _run_works(leaves: tuple[Array, ...], tables: Array, first: Array, count: Array, structure, layout, mesh: Mesh):
    """[devices · batches_per_dispatch, batch_size, ...] of everything that is measured."""

    def one_device(leaves, tables, first, count):
        policy, problem, key = jax.tree.unflatten(structure, [x[0] for x in leaves])
        return run_batches(policy, problem, tables, jax.random.wrap_key_data(key), first[0], count[0], layout)

    apart = PartitionSpec("works")
    run = jax.shard_map(one_device, mesh=mesh, in_specs=apart, out_specs=apart, check_vma=False)
    return run(leaves, tables, first, count)


def run_batches(
    policy: Policy, problem: Problem, tables: Array, key: Array, first: Array, count: Array, layout: Layout
):
    """`count` batches from the `first` on, one after the other: [batches_per_dispatch, batch_size, ...].

    `tables` [batches_per_dispatch, batch_size, K, G] are their curves; `problem` comes without.
    """

    @jax.jit  # traced once, for the shapes and for the loop
    def batch(policy, problem, tables, key, number):
        keys = curves.replication_keys(key, number, layout.batch_size)
        replicate = eliminate_dead_code(lambda *inputs: _replicate(*inputs, layout))
        return jax.vmap(lambda table, k: replicate(policy, problem.given(table), k))(tables, keys)

    shapes = jax.eval_shape(batch, policy, problem, tables[0], key, first)
    empty = jax.tree.map(lambda x: jnp.zeros((layout.batches_per_dispatch, *x.shape), x.dtype), shapes)

    def run_one(i, results):
        new = batch(policy, problem, jax.lax.dynamic_index_in_dim(tables, i, keepdims=False), key, first + i)
        return jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, i, axis=0), results, new)

    return jax.lax.fori_loop(0, count, run_one, empty)


def _replicate(policy: Policy, problem: Problem, key: Array, layout: Layout) -> dict[str, Any]:
    """One replication's metrics per segment, [C] each, its plays [K], sums of what is watched, and its first fault."""
    inputs, position = begin(policy, problem, key)

    def segment(position: ReplicationState, first_round):
        if layout.horizon > rollout.REFRESH_EVERY:
            position = refresh_if_due(policy, position, first_round, layout.rounds_per_segment)
        position, rounds = play_rounds(policy, inputs, position, first_round, layout.rounds_per_segment, layout.watch)
        return position, _measure(inputs.curves, rounds, layout, first_round)

    position, measured = jax.lax.scan(
        segment, position, layout.rounds_per_segment * jnp.arange(layout.num_segments, dtype=jnp.int32)
    )
    return measured | {
        "plays": jnp.sum(measured["plays"], axis=0),
        "fault": _within(position.fault, layout.horizon),
    }


def _measure(curves: Array, rounds: Rounds, layout: Layout, first_round: Array) -> dict[str, Any]:
    """Sums over those of the given rounds that the horizon leaves."""
    t = first_round + jnp.arange(layout.rounds_per_segment, dtype=jnp.int32)
    counted = t < layout.horizon
    stretch = Stretch(t, rounds.z, rounds.available, rounds.arms, rounds.rewards, counted)
    arms = rounds.arms if rounds.arms.ndim == 2 else rounds.arms[:, None]
    played = (arms[:, :, None] == jnp.arange(curves.shape[0], dtype=jnp.int32)[None, None, :]) & counted[:, None, None]
    return {
        "sums": {metric.name: metric.measure(curves, stretch) for metric in layout.metrics},
        "plays": jnp.sum(played, axis=(0, 1), dtype=jnp.int32),
        "watched": {name: _sum_and_number(x, counted) for name, x in rounds.watched.items()},
    }


def _sum_and_number(values: Array, counted: Array) -> Array:
    """[2]; values that are NaN are left out."""
    there = counted & ~jnp.isnan(values)
    return jnp.stack([jnp.sum(jnp.where(there, values, 0.0)), jnp.sum(there).astype(values.dtype)])


def _within(fault: rollout.Fault, horizon: int) -> rollout.Fault:
    """Rounds beyond the horizon have no faults."""
    return fault._replace(round=jnp.where(fault.round < horizon, fault.round, -1))
