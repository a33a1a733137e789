"""Many replications, compiled once per shape and spread over all devices.

Replication r draws everything from fold_in(key(seed), r). Replications run in tiles of fixed width, r in tile r //
width, row r % width, the last one padded; a call runs a few tiles on every device, one after the other. So totals are
the same to the last bit for any number of devices, and the first N replications of a longer run are the N-run. A
replication sums up its rounds segment by segment, so that memory does not grow with the horizon; sums over segments
and replications are made on the host in float64, while the devices already run the next tiles.
"""

import collections
import dataclasses
import functools
import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from jaxband import aggregate, checks, progress, regret
from jaxband.base import Policy
from jaxband.compile_clock import compile_clock
from jaxband.environment import Problem
from jaxband.simulate import Rounds, begin, check_fit, play_rounds

TILE = 64  # replications that one device runs side by side
SEGMENTS = 128  # checkpoints of the cumulative curves, at most one more
ROUNDS_PER_CALL = 2**19  # of one device, over all replications: about half a second between two signs of progress
METRICS = ("total_reward", "expected_reward", "instantaneous_regret", "lookahead_regret")


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """What `monte_carlo` returns; [R] arrays are in replication order."""

    total_reward: np.ndarray  # [R]; noisy rewards, summed over the horizon
    expected_reward: np.ndarray  # [R]; the same without the noise
    instantaneous_regret: np.ndarray  # [R]
    lookahead_regret: np.ndarray  # [R]; in blocks of `lookahead` rounds
    plays: np.ndarray  # [R, K]; how often each arm was played
    watched: dict[str, np.ndarray]  # [R] each; means over the rounds after the warm-up
    checkpoints: np.ndarray  # [C]; numbers of rounds at which the bands are taken
    bands: dict[str, aggregate.Band]  # cumulative curve of every metric
    horizon: int
    lookahead: int
    seed: int
    wall_seconds: float  # all of the call, compilation included
    compile_seconds: float  # tracing, lowering and XLA; 0 when the shape was compiled before

    def summary(self) -> dict[str, aggregate.Summary]:
        """Mean, standard error and percentiles of every metric."""
        return {metric: aggregate.summarise(getattr(self, metric)) for metric in METRICS}


def monte_carlo(
    policy: Policy,
    problem: Problem,
    *,
    horizon: int,
    replications: int,
    seed: int = 0,
    lookahead: int | None = None,
    repeats: bool | None = None,
    watch: Sequence[str] = (),
    devices: Sequence[jax.Device] | None = None,
    show_progress: bool | None = None,
) -> Result:
    """Totals and cumulative curves of `replications` independent runs.

    The lookahead regret is taken over blocks of `lookahead` rounds (default: as far as the policy itself looks),
    against sequences that may repeat an arm (`repeats`; default: as the policy's planner may). `watch` names numbers
    of the policy's plans to average, such as "certified" or an optimistic plan's "depth".

    >>> import jaxband as jb
    >>> problem = jb.Problem([[0.0, 0.5, 1.0], [0.3, 0.3, 0.3]], noise=0.1)
    >>> result = jb.monte_carlo(jb.policies.round_robin(2), problem, horizon=100, replications=10)
    >>> result.plays[0].tolist()
    [50, 50]
    """
    began = time.perf_counter()
    horizon = checks.whole_number("horizon", horizon, minimum=1)
    replications = checks.whole_number("replications", replications, 1, 2**32)
    seed = checks.whole_number("seed", seed, 0, 2**32 - 1, remedy="JAX would take it modulo 2³²")
    check_fit(policy, problem)
    if repeats is None:
        repeats = getattr(getattr(policy, "planner", None), "repeats", True)
    layout = _lay_out(horizon, policy.depth if lookahead is None else lookahead, bool(repeats), tuple(watch))

    num_tiles = math.ceil(replications / TILE)
    devices = list(jax.local_devices() if devices is None else devices)[:num_tiles]
    if not devices:
        raise ValueError("devices must name at least one device, got none; leave it out to use all")
    mesh = Mesh(np.array(devices), ("tiles",))

    gathered = _Gatherer()
    with compile_clock() as compile_seconds, progress.bar("replications", replications, show_progress) as advance:
        key, running = jax.random.key(seed), None
        for call in _calls(num_tiles, len(devices), layout.tiles_per_call):
            started = call, _run_tiles(policy, problem, key, call.first, call.count, layout, mesh)
            if running:  # the next call computes while the last one's results are gathered
                advance(gathered.add(*running, replications))
            running = started
        advance(gathered.add(*running, replications))
    return Result(
        **gathered.totals(planned_rounds=max(horizon - int(policy.warm_up), 0)),
        checkpoints=layout.checkpoints(),
        horizon=horizon,
        lookahead=layout.lookahead,
        seed=seed,
        wall_seconds=time.perf_counter() - began,
        compile_seconds=compile_seconds(),
    )


class _Layout(NamedTuple):
    """The horizon cut into segments of whole lookahead blocks. What the last one plays beyond it counts nothing."""

    horizon: int
    rounds_per_segment: int
    num_segments: int
    lookahead: int
    repeats: bool
    watch: tuple[str, ...]
    tiles_per_call: int  # on each device

    def checkpoints(self) -> np.ndarray:
        return np.minimum(self.rounds_per_segment * np.arange(1, self.num_segments + 1), self.horizon)


def _lay_out(horizon: int, lookahead: int, repeats: bool, watch: tuple[str, ...] = ()) -> _Layout:
    lookahead = checks.whole_number("lookahead", lookahead, minimum=1)
    blocks = math.ceil(horizon / lookahead)
    rounds = lookahead * math.ceil(blocks / SEGMENTS)
    tiles_per_call = max(1, ROUNDS_PER_CALL // (TILE * horizon))
    return _Layout(horizon, rounds, math.ceil(horizon / rounds), lookahead, repeats, watch, tiles_per_call)


class _Call(NamedTuple):
    """Which tiles each device runs in one call: [devices] each. Tile numbers of a call run on from device to device."""

    first: np.ndarray
    count: np.ndarray


def _calls(num_tiles: int, num_devices: int, tiles_per_call: int) -> Iterator[_Call]:
    for start in range(0, num_tiles, num_devices * tiles_per_call):
        now = min(num_tiles - start, num_devices * tiles_per_call)
        count = np.full(num_devices, now // num_devices, np.int32) + (np.arange(num_devices) < now % num_devices)
        yield _Call((start + np.cumsum(count) - count).astype(np.int32), count.astype(np.int32))


@functools.partial(jax.jit, static_argnames=("layout", "mesh"))
def _run_tiles(
    policy: Policy, problem: Problem, key: Array, first: Array, count: Array, layout: _Layout, mesh: Mesh
) -> dict[str, Array]:
    """`count` tiles from the `first` on, on every device [devices]: [devices · tiles_per_call, TILE, ...] each."""

    def tile(policy, problem, key, number):
        rows = number.astype(jnp.uint32) * np.uint32(TILE) + np.arange(TILE, dtype=np.uint32)
        keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(rows)
        return jax.vmap(lambda k: _replicate(policy, problem, k, layout))(keys)

    def tiles(policy, problem, key, first, count):
        shapes = jax.eval_shape(tile, policy, problem, key, first[0])
        empty = jax.tree.map(lambda x: jnp.zeros((layout.tiles_per_call, *x.shape), x.dtype), shapes)

        def run_one(i, results):
            new = tile(policy, problem, key, first[0] + i)
            return jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, i, axis=0), results, new)

        return jax.lax.fori_loop(0, count[0], run_one, empty)

    everywhere, apart = PartitionSpec(), PartitionSpec("tiles")
    sharded = jax.shard_map(
        tiles, mesh=mesh, in_specs=(everywhere, everywhere, everywhere, apart, apart), out_specs=apart, check_vma=False
    )
    return sharded(policy, problem, key, first, count)


def _replicate(policy: Policy, problem: Problem, key: Array, layout: _Layout) -> dict[str, Array]:
    """One replication's metrics per segment, [C] each, its plays [K] and sums of what is watched."""
    replication, position = begin(policy, problem, key, layout.watch)

    def segment(position, first_round):
        position, rounds = play_rounds(policy, replication, position, first_round, layout.rounds_per_segment)
        planned = first_round + jnp.arange(layout.rounds_per_segment, dtype=jnp.int32) >= policy.warm_up
        return position, _measure(replication.curves, rounds, layout, layout.horizon - first_round, planned)

    _, measured = jax.lax.scan(
        segment, position, layout.rounds_per_segment * jnp.arange(layout.num_segments, dtype=jnp.int32)
    )
    return measured | {"plays": jnp.sum(measured["plays"], axis=0)}


def _measure(curves: Array, rounds: Rounds, layout: _Layout, num_rounds: Array, planned: Array) -> dict[str, Array]:
    """Sums over the first `num_rounds` of the given rounds; of plans, only over rounds that are `planned`."""
    counted = jnp.arange(rounds.arms.shape[0], dtype=jnp.int32) < num_rounds
    expected = regret.expected(curves, rounds.z, rounds.arms)
    instantaneous = regret.instantaneous(curves, rounds.z, rounds.arms)
    if layout.lookahead == 1:
        lookahead = jnp.where(counted, instantaneous, 0.0)
    else:
        lookahead = regret.lookahead(
            curves, rounds.z, rounds.arms, layout.lookahead, repeats=layout.repeats, num_rounds=num_rounds
        )
    played = (rounds.arms[:, None] == jnp.arange(curves.shape[0], dtype=jnp.int32)[None, :]) & counted[:, None]
    return {
        "total_reward": jnp.sum(jnp.where(counted, rounds.rewards, 0.0)),
        "expected_reward": jnp.sum(jnp.where(counted, expected, 0.0)),
        "instantaneous_regret": jnp.sum(jnp.where(counted, instantaneous, 0.0)),
        "lookahead_regret": jnp.sum(lookahead),
        "plays": jnp.sum(played, axis=0, dtype=jnp.int32),
        "watched": {
            name: jnp.sum(jnp.where(counted & planned, value.astype(expected.dtype), 0.0))
            for name, value in rounds.watched.items()
        },
    }


class _Gatherer:
    """Results of tiles as they come off the devices, in replication order."""

    def __init__(self) -> None:
        self._sums = {metric: [] for metric in METRICS}
        self._plays = []
        self._watched = collections.defaultdict(list)
        self._bands = {metric: aggregate.BandBuilder() for metric in METRICS}

    def add(self, call: _Call, measured: dict[str, Array], replications: int) -> int:
        """Take in the results of one call; how many of the wanted replications they were."""
        wanted = min(int(call.count.sum()) * TILE, replications - int(call.first[0]) * TILE)
        measured = jax.tree.map(lambda x: _in_order(np.asarray(x), call.count)[:wanted], measured)
        self._plays.append(measured["plays"])
        for name, sums in measured["watched"].items():
            self._watched[name].append(np.sum(sums, axis=1, dtype=np.float64))
        for metric in METRICS:
            cumulative = np.cumsum(measured[metric], axis=1, dtype=np.float64)
            self._sums[metric].append(cumulative[:, -1])
            self._bands[metric].add(cumulative)
        return wanted

    def totals(self, planned_rounds: int) -> dict:
        sums = {metric: np.concatenate(parts) for metric, parts in self._sums.items()}
        bands = {metric: builder.band() for metric, builder in self._bands.items()}
        watched = {name: np.concatenate(parts) / planned_rounds for name, parts in self._watched.items()}
        return sums | {"plays": np.concatenate(self._plays), "bands": bands, "watched": watched}


def _in_order(results: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The rows of the tiles that were run, [replications, ...], from [devices · tiles_per_call, TILE, ...]."""
    by_device = results.reshape(len(count), -1, *results.shape[1:])
    tiles = np.concatenate([tiles[:n] for tiles, n in zip(by_device, count, strict=True)])
    return tiles.reshape(-1, *tiles.shape[2:])
