"""The engine for clusters: one long-lived Ray actor per device, each with its own process and its own device.

Actors compute and send results back; this process alone writes files, so that they are the same bytes as with the
local engine. An actor prefers units of the shape that it has compiled. When an actor or its node dies, its units go
back to the queue, and nodes that join are given actors.
"""

import collections
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from jaxband._runtime import interrupts
from jaxband.base import PolicyError
from jaxband.sweep.engines import compile_groups, execute
from jaxband.sweep.spec import user_code
from jaxband.sweep.spec.cells import Cell
from jaxband.sweep.spec.user_code import UserCode
from jaxband.sweep.storage.units import Unit, UnitResult

AHEAD = 2  # units that an actor has been sent: one runs, one waits
MOST_DEATHS = 5  # of actors running the same unit; then it is left out and the sweep stays incomplete
LOOK_AROUND = 2.0  # seconds; how often new nodes are looked for when nothing happens
PATIENCE = 600.0  # seconds without any worker
MEMORY_SHARE = 0.9  # of a GPU, for its one actor


def ray_engine(address: str | None = None, env_vars: dict[str, str] | None = None) -> Callable:
    """An engine on the cluster at `address` ("auto": the one this machine belongs to; None: a new one, here alone).

    `env_vars` are set in the actors' processes.
    """
    try:
        import ray
    except ImportError:
        raise ImportError("clusters need Ray; install it with: pip install 'jaxband[ray]'") from None

    def engine(units: list[Unit]) -> Iterator[tuple[Unit, UnitResult]]:
        started_here = not ray.is_initialized()
        if started_here:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        try:
            yield from _ActorPool(ray, env_vars or {}).run(units)
        finally:
            if started_here:
                ray.shutdown()

    return engine


class Worker:
    """What runs in an actor: JAX with one device, and the cells it was told about."""

    def __init__(self, core: int | None, codes: tuple[UserCode, ...] = ()) -> None:
        if core is not None and hasattr(os, "sched_setaffinity"):
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[core % len(cores)]})
        import jax

        import jaxband  # noqa: F401  (asks JAX for one device per core: here, one)

        self._devices = jax.local_devices()[:1]
        for code in codes:
            user_code.receive(code)

    def versions(self) -> dict[str, str]:
        """Asked first: an answer means that the actor is ready."""
        return execute.versions()

    def run(self, cell: tuple, start: int, stop: int, rank: int | None) -> UnitResult:
        """The results of one unit; `rank` is what `shared_ranks` chose for its cell."""
        unit = Unit(_cell(cell), start, stop)
        ranks = {} if rank is None else {unit.cell.identity: rank}
        ((_, measured),) = execute.results([unit], self._devices, ranks)
        return measured


_cells: dict[str, Cell] = {}  # in an actor: one object per cell, so that it is prepared once


def _cell(parts: tuple) -> Cell:
    cell = Cell(*parts)
    return _cells.setdefault(cell.identity, cell)


def _codes_of(units: list[Unit]) -> tuple[UserCode, ...]:
    """The user's own code that units need, to be sent to the actors."""
    digests = set()
    for cell in {id(unit.cell): unit.cell for unit in units}.values():
        digests |= {cell.code, cell.problem.get("sha256"), *cell.metric_code}
    return tuple(user_code.code_of(digest) for digest in sorted(digests - {None}))


class _Slot(NamedTuple):
    """A place for an actor: one device of one node."""

    node: str
    index: int


class _ActorPool:
    """The actors, and who is running what."""

    def __init__(self, ray, env_vars: dict[str, str]) -> None:
        self._ray = ray
        self._errors = tuple(
            getattr(ray.exceptions, name)
            for name in ("RayActorError", "WorkerCrashedError", "ActorUnschedulableError", "NodeDiedError")
            if hasattr(ray.exceptions, name)
        )
        self._has_gpus = ray.cluster_resources().get("GPU", 0) >= 1
        share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": str(MEMORY_SHARE)} if self._has_gpus else {"JAX_PLATFORMS": "cpu"}
        passed_on = {name: os.environ[name] for name in ("PYTHONPATH", "JAXBAND_CACHE") if name in os.environ}
        self._env_vars = {"JAX_NUM_CPU_DEVICES": "1"} | share | passed_on | env_vars
        self._actors: dict[_Slot, Any] = {}
        self._pending: dict[Any, tuple[_Slot, Unit | None]] = {}  # by task; without a unit: the actor is starting
        self._failures = collections.Counter()  # of slots, to start
        self._last_error: Exception | None = None
        self._codes: tuple[UserCode, ...] = ()
        self._ranks: dict[str, int] = {}

    def run(self, units: list[Unit]) -> Iterator[tuple[Unit, UnitResult]]:
        """Every unit with its results; those that killed too many actors are left out."""
        try:
            self._codes, self._ranks = _codes_of(units), compile_groups.shared_ranks(units)
            yield from self._run(_Queue(units), most=len(units))
        finally:
            for actor in self._actors.values():
                self._ray.kill(actor)

    def _run(self, queue: "_Queue", most: int) -> Iterator[tuple[Unit, UnitResult]]:
        deaths, looked, alone_since = collections.Counter(), -math.inf, time.monotonic()
        while queue or any(unit for _, unit in self._pending.values()):
            interrupts.raise_if_interrupted()
            if time.monotonic() - looked > LOOK_AROUND or not self._actors:
                self._start_actors(most)
                looked = time.monotonic()
            if self._actors:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since > PATIENCE:
                raise OSError(f"no Ray worker could be kept alive for {PATIENCE:.0f} s: {self._last_error}")
            else:
                time.sleep(min(LOOK_AROUND, PATIENCE))
            busy = {slot for slot, _ in self._pending.values()}
            for slot in [slot for slot in self._actors if slot not in busy]:
                self._send_units(slot, queue)  # of an actor that died when the others had run out of work
            for task in self._ray.wait(list(self._pending), timeout=LOOK_AROUND)[0] if self._pending else ():
                slot, unit = self._pending.pop(task)
                try:
                    measured = self._ray.get(task)
                except self._errors as error:
                    self._on_actor_death(slot, unit, error, queue, deaths)
                    continue
                except self._ray.exceptions.RayTaskError as error:
                    raise error.cause if isinstance(error.cause, PolicyError) else error from None
                if unit is not None:
                    yield unit, measured
                elif measured != (ours := execute.versions()):
                    raise ValueError(f"a node has {measured}, this process {ours}: install the same on all")
                self._send_units(slot, queue)

    def _start_actors(self, most: int) -> None:
        """An actor for every device of every node that is alive, also of nodes that have joined; at most so many."""
        what = "GPU" if self._has_gpus else "CPU"
        alive = {node["NodeID"]: int(node["Resources"].get(what, 0)) for node in self._ray.nodes() if node["Alive"]}
        for slot in (_Slot(node, index) for node, count in alive.items() for index in range(count)):
            if slot not in self._actors and self._failures[slot] < MOST_DEATHS and len(self._actors) < most:
                self._actors[slot] = self._actor(slot)
                self._pending[self._actors[slot].versions.remote()] = (slot, None)

    def _actor(self, slot: _Slot):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        device = {"num_gpus": 1, "num_cpus": 0} if self._has_gpus else {"num_cpus": 1}
        options = self._ray.remote(Worker).options(
            **device,
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(slot.node, soft=False),
            runtime_env={"env_vars": self._env_vars},
        )
        return options.remote(None if self._has_gpus else slot.index, self._codes)

    def _send_units(self, slot: _Slot, queue: "_Queue") -> None:
        sent = sum(unit is not None for s, unit in self._pending.values() if s == slot)
        for _ in range(AHEAD - sent):
            if queue:
                unit = queue.take(slot)
                cell = tuple(vars(unit.cell)[field.name] for field in dataclasses.fields(unit.cell))
                task = self._actors[slot].run.remote(cell, unit.start, unit.stop, self._ranks.get(unit.cell.identity))
                self._pending[task] = (slot, unit)

    def _on_actor_death(
        self, slot, unit: Unit | None, error: Exception, queue: "_Queue", deaths: collections.Counter
    ) -> None:
        """Take a dead actor's units back. The one that was running counts a death; too many, and it is left out."""
        self._last_error = error
        self._actors.pop(slot, None)
        self._failures[slot] += unit is None
        waiting = [u for s, u in self._pending.values() if s == slot]
        self._pending = {task: pair for task, pair in self._pending.items() if pair[0] != slot}
        lost = [u for u in (unit, *waiting) if u is not None]
        for place, lost_unit in enumerate(lost):
            deaths[lost_unit.identity] += place == 0
            if deaths[lost_unit.identity] < MOST_DEATHS:
                queue.put_back(lost_unit)


class _Queue:
    """Units by compiled shape. A slot stays with a shape while there are units of it."""

    def __init__(self, units: list[Unit]) -> None:
        self._by_shape = collections.defaultdict(collections.deque)
        for unit in compile_groups.sorted_for_compilation(units):
            self._by_shape[compile_groups.compile_group(unit)].append(unit)
        self._last = {}

    def __bool__(self) -> bool:
        return any(self._by_shape.values())

    def take(self, slot: _Slot) -> Unit:
        shape = self._last.get(slot)
        if not self._by_shape.get(shape):
            shape = max(self._by_shape, key=lambda s: len(self._by_shape[s]))
        self._last[slot] = shape
        return self._by_shape[shape].popleft()

    def put_back(self, unit: Unit) -> None:
        self._by_shape[compile_groups.compile_group(unit)].appendleft(unit)
