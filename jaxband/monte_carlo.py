"""Many replications, compiled once per shape and spread over all devices and processes.

Replication r draws everything from fold_in(key(seed), r) and is computed in a lane of its own. So totals are the same
to the last bit for any tile width, number of devices or processes (`layout`), and the first N replications of a longer
run are the N-run. A replication sums up its rounds segment by segment, so that memory does not grow with the horizon;
sums over segments and replications are made on the host in float64, while the devices already run the next tiles.
"""

import collections
import dataclasses
import functools
import math
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from jaxband import aggregate, checks, devices, interrupts, optimum, processes, regret
from jaxband.base import Policy
from jaxband.compile_clock import compile_clock
from jaxband.dead_code import without_dead_code
from jaxband.environment import Problem
from jaxband.layout import Call, Layout, calls, default_tile, in_order, lay_out, share
from jaxband.progress import bar
from jaxband.simulate import REFRESH_EVERY, Rounds, begin, check_fit, play_rounds, refresh_if_due

METRICS = ("total_reward", "expected_reward", "instantaneous_regret", "lookahead_regret")
# XLA would split large loops over the cores; with one device per core that costs a third of the time.
WHOLE_LOOPS = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """What `monte_carlo` returns; [R] arrays are in replication order."""

    total_reward: np.ndarray  # [R]; noisy rewards, summed over the horizon
    expected_reward: np.ndarray  # [R]; the same without the noise
    instantaneous_regret: np.ndarray  # [R]
    lookahead_regret: np.ndarray  # [R]; in blocks of `lookahead` rounds
    plays: np.ndarray  # [R, K]; how often each arm was played
    watched: dict[str, np.ndarray]  # [R] each; means over the rounds after the warm-up
    checkpoints: np.ndarray  # [C]; numbers of rounds at which the `bands` are taken
    courses: dict[str, aggregate.BandBuilder]  # what the `bands` are made of
    certificate: np.ndarray | None  # [R]; what no policy exceeds in expectation, if asked for
    horizon: int
    lookahead: int
    seed: int
    wall_seconds: float  # all of the call, compilation included
    compile_seconds: float  # tracing, lowering and XLA; 0 when the shape was compiled before

    @functools.cached_property
    def bands(self) -> dict[str, aggregate.Band]:
        """Mean and percentiles of the cumulative curve of every metric, at the checkpoints; made when first read."""
        return {metric: course.band() for metric, course in self.courses.items()}

    @property
    def gap(self) -> np.ndarray:
        """How far each replication stayed below its certificate, [R]: at least its full-horizon regret."""
        return regret.gap(self.expected_reward, self._certified())

    @property
    def share(self) -> np.ndarray:
        """Expected reward as a share of the certificate, [R]; of meaning where the certificate is positive."""
        return self.expected_reward / self._certified()

    def _certified(self) -> np.ndarray:
        if self.certificate is None:
            raise ValueError("certificate was not computed; call monte_carlo(..., certificate=True)")
        return self.certificate

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
    certificate: bool = False,
    devices: Sequence[jax.Device] | None = None,
    tile: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Totals and cumulative curves of `replications` independent runs.

    The lookahead regret is taken over blocks of `lookahead` rounds (default: as far as the policy itself looks),
    against sequences that may repeat an arm (`repeats`; default: as the policy's planner may). `watch` names numbers
    of the policy's plans to average, such as "certified" or an optimistic plan's "depth". With `certificate`, the
    expected total that no policy could exceed is computed from each replication's curves (`optimum.certificate`).

    Runs on all `devices` of this process (default: `jax.local_devices()`), `tile` replications side by side on each;
    under `jax.distributed` every process runs its share and all return the whole. `progress` shows a bar (default: on
    a terminal).

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
    chosen = _chosen(devices)
    tile = default_tile(chosen[0], policy.num_arms) if tile is None else tile
    lookahead = policy.depth if lookahead is None else lookahead
    layout = lay_out(horizon, lookahead, bool(repeats), tuple(watch), bool(certificate), tile)

    tiles = share(math.ceil(replications / layout.tile), jax.process_index(), jax.process_count())
    wanted = range(tiles.start * layout.tile, min(tiles.stop * layout.tile, replications))
    mesh = Mesh(np.array(chosen[: max(1, len(tiles))]), ("tiles",))
    gathered = _Gatherer()
    with compile_clock() as compile_seconds, bar("replications", len(wanted), progress) as advance, interrupts.held():
        key, running = jax.random.key(seed), None
        for call in calls(tiles, mesh.size, layout.tiles_per_call):
            started = call, _run_tiles(policy, problem, key, call.first, call.count, layout, mesh)
            if running:  # the next call computes while the last one's results are gathered
                advance(gathered.add(*running, wanted.stop, layout.tile))
            running = started
            interrupts.let_through(after=running)
        if running:
            advance(gathered.add(*running, wanted.stop, layout.tile))
    return Result(
        **gathered.totals(horizon, planned_rounds=max(horizon - int(policy.warm_up), 0)),
        checkpoints=layout.checkpoints(),
        horizon=horizon,
        lookahead=layout.lookahead,
        seed=seed,
        wall_seconds=time.perf_counter() - began,
        compile_seconds=compile_seconds(),
    )


def _chosen(chosen: Sequence[jax.Device] | None) -> list[jax.Device]:
    if chosen is None:
        devices.say_if_cores_are_idle()
        return jax.local_devices()
    if not len(chosen):
        raise ValueError("devices must name at least one device, got none; leave it out to use all")
    return list(chosen)


@functools.partial(jax.jit, static_argnames=("layout", "mesh"), compiler_options=WHOLE_LOOPS)
def _run_tiles(
    policy: Policy, problem: Problem, key: Array, first: Array, count: Array, layout: Layout, mesh: Mesh
) -> dict[str, Array]:
    """`count` tiles from the `first` on, on every device [devices]: [devices · tiles_per_call, tile, ...] each."""

    def one_device(policy, problem, key, first, count):
        return run_in_turn(policy, problem, key, first[0], count[0], layout)

    everywhere, apart = PartitionSpec(), PartitionSpec("tiles")
    sharded = jax.shard_map(
        one_device,
        mesh=mesh,
        in_specs=(everywhere, everywhere, everywhere, apart, apart),
        out_specs=apart,
        check_vma=False,
    )
    return sharded(policy, problem, key, first, count)


def run_in_turn(
    policy: Policy, problem: Problem, key: Array, first: Array, count: Array, layout: Layout
) -> dict[str, Array]:
    """`count` tiles from the `first` on, one after the other on one device: [tiles_per_call, tile, ...] each."""

    @jax.jit  # traced once, for the shapes and for the loop
    def tile(policy, problem, key, number):
        rows = number.astype(jnp.uint32) * np.uint32(layout.tile) + np.arange(layout.tile, dtype=np.uint32)
        keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(rows)
        replicate = without_dead_code(lambda *inputs: _replicate(*inputs, layout))
        return jax.vmap(lambda k: replicate(policy, problem, k))(keys)

    shapes = jax.eval_shape(tile, policy, problem, key, first)
    empty = jax.tree.map(lambda x: jnp.zeros((layout.tiles_per_call, *x.shape), x.dtype), shapes)

    def run_one(i, results):
        new = tile(policy, problem, key, first + i)
        return jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, i, axis=0), results, new)

    return jax.lax.fori_loop(0, count, run_one, empty)


def _replicate(policy: Policy, problem: Problem, key: Array, layout: Layout) -> dict[str, Array]:
    """One replication's metrics per segment, [C] each, its plays [K], sums of what is watched, and its bound."""
    replication, position = begin(policy, problem, key, layout.watch)

    def segment(position, first_round):
        if layout.horizon > REFRESH_EVERY:
            position = refresh_if_due(policy, position, first_round, layout.rounds_per_segment)
        position, rounds = play_rounds(policy, replication, position, first_round, layout.rounds_per_segment)
        planned = first_round + jnp.arange(layout.rounds_per_segment, dtype=jnp.int32) >= policy.warm_up
        return position, _measure(replication.curves, rounds, layout, layout.horizon - first_round, planned)

    _, measured = jax.lax.scan(
        segment, position, layout.rounds_per_segment * jnp.arange(layout.num_segments, dtype=jnp.int32)
    )
    bound = _bound(replication.curves, problem.z_init) if layout.certificate else {}
    return measured | {"plays": jnp.sum(measured["plays"], axis=0), "bound": bound}


def _bound(curves: Array, z_init: Array) -> dict[str, Array]:
    """The parts of the certificate; it is put together in float64."""
    bound = optimum.dual_bound(curves)
    return {"average": bound.average, "head start": optimum.head_start(bound, z_init)}


def _measure(curves: Array, rounds: Rounds, layout: Layout, num_rounds: Array, planned: Array) -> dict[str, Array]:
    """Sums over the first `num_rounds` of the given rounds; of plans, only over rounds that are `planned`."""
    counted = jnp.arange(rounds.arms.shape[0], dtype=jnp.int32) < num_rounds
    expected = regret.expected(curves, rounds.z, rounds.arms)
    instantaneous = regret.instantaneous(curves, rounds.z, rounds.arms)
    lookahead = {}
    if layout.lookahead > 1:
        blocks = regret.lookahead(
            curves, rounds.z, rounds.arms, layout.lookahead, repeats=layout.repeats, num_rounds=num_rounds
        )
        lookahead = {"lookahead_regret": jnp.sum(blocks)}
    played = (rounds.arms[:, None] == jnp.arange(curves.shape[0], dtype=jnp.int32)[None, :]) & counted[:, None]
    return {
        "total_reward": jnp.sum(jnp.where(counted, rounds.rewards, 0.0)),
        "expected_reward": jnp.sum(jnp.where(counted, expected, 0.0)),
        "instantaneous_regret": jnp.sum(jnp.where(counted, instantaneous, 0.0)),
        **lookahead,
        "plays": jnp.sum(played, axis=0, dtype=jnp.int32),
        "watched": {
            name: jnp.sum(jnp.where(counted & planned, value.astype(expected.dtype), 0.0))
            for name, value in rounds.watched.items()
        },
    }


class _Gatherer:
    """Results of tiles as they come off the devices, in replication order."""

    def __init__(self) -> None:
        self._parts = collections.defaultdict(list)  # [n, ...] each
        self._bands = collections.defaultdict(aggregate.BandBuilder)

    def add(self, call: Call, measured: dict[str, Array], replications: int, tile: int) -> int:
        """Take in the results of one call; how many of the wanted replications they were."""
        wanted = min(int(call.count.sum()) * tile, replications - int(call.first[0]) * tile)
        measured = jax.tree.map(lambda x: in_order(np.asarray(x), call)[:wanted], measured)
        self._parts["plays"].append(measured["plays"])
        for name, values in measured["bound"].items():
            self._parts["bound " + name].append(values.astype(np.float64))
        for name, sums in measured["watched"].items():
            self._parts["watched " + name].append(np.sum(sums, axis=1, dtype=np.float64))
        for metric, sums in measured.items():
            if metric in METRICS:
                cumulative = np.cumsum(sums, axis=1, dtype=np.float64)
                self._parts[metric].append(cumulative[:, -1].copy())  # a view would keep all segments alive
                self._bands[metric].add(cumulative)
        return wanted

    def totals(self, horizon: int, planned_rounds: int) -> dict:
        """Those of all processes."""
        mine = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        mine |= {
            f"band {metric} {name}": x for metric, band in self._bands.items() for name, x in band.arrays().items()
        }
        everyones = [arrays for arrays in processes.exchange(mine) if "plays" in arrays]
        names = [name for name in everyones[0] if not name.startswith("band ")]
        sums = {name: np.concatenate([arrays[name] for arrays in everyones]) for name in names}
        courses = {
            metric: aggregate.BandBuilder.merged([_under(f"band {metric} ", arrays) for arrays in everyones])
            for metric in METRICS
            if metric in sums
        }
        if "lookahead_regret" not in sums:  # one step ahead
            sums["lookahead_regret"], courses["lookahead_regret"] = (
                table["instantaneous_regret"] for table in (sums, courses)
            )
        watched = {name: values / planned_rounds for name, values in _under("watched ", sums).items()}
        bound = _under("bound ", sums)
        certificate = horizon * bound["average"] + bound["head start"] if bound else None
        more = {"courses": courses, "watched": watched, "certificate": certificate}
        return {name: sums[name] for name in (*METRICS, "plays")} | more


def _under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
