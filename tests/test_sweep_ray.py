"""Sweeps on Ray: the same bytes as local ones, also when nodes die. Slow, and skipped where Ray is not installed.

The bookkeeping is tested everywhere, with a stand-in for Ray whose actors die as they are told.
"""

import collections
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweep_tools import USERS, USERS_SPEC, Fast, collected, measured, small_spec, unit_files, write_user_code

import jaxband as jb
from jaxband import sweep
from jaxband.sweep.engines import execute, ray_cluster
from jaxband.sweep.storage.units import Unit

OF_LIBRARY = """
name = "ray"
horizon = 6
replications = 1000
replications_per_unit = 40
problems.p = { family = "table", rows = [[0.0, 1.0, 1.0], [0.3, 0.4, 0.5]] }
grid = { policy = ["random", "round_robin"], noise = [0.1, 0.2] }
"""
OF_USER = (
    USERS_SPEC.replace("replications = 9", "replications = 1000")
    .replace("replications_per_unit = 2", "replications_per_unit = 40")
    .replace("height = 0.5", "height = [0.5, 1.5]")
    .replace("[1, 2]", "2")
)
TESTS = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("spec", [OF_LIBRARY, OF_USER], ids=["library", "user"])
def test_a_node_killed_in_the_middle_changes_no_byte(tmp_path, spec):
    """Of the library's own policies, and of a user's policy, problem and metric, whose sources travel to the actors."""
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'jaxband[ray]'")
    write_user_code(tmp_path, spec)
    environment = os.environ | {"PYTHONPATH": str(TESTS.parent), "JAXBAND_CACHE": str(tmp_path / "cache")}
    arguments = [tmp_path / "spec.toml", tmp_path / "ray", "10", tmp_path / "report.json"]
    run = subprocess.run(
        [sys.executable, TESTS / "sweep_on_ray.py", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["complete"] and report["done"] == 100
    assert report["lost"] >= 1, "the node's actor must have been seen dead"
    sweep.run(sweep.read_spec(tmp_path / "spec.toml"), tmp_path / "local", progress=False)
    assert unit_files(tmp_path / "ray") == unit_files(tmp_path / "local")
    assert collected(tmp_path / "ray") == collected(tmp_path / "local")


@pytest.mark.slow
def test_a_users_policy_that_fails_in_an_actor_is_3_and_mended_it_completes(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'jaxband[ray]'")
    failing = USERS["mine.py"].replace("return rested(round.z, self.threshold, state), state", "return 7, state")
    spec = write_user_code(tmp_path, mine=failing)
    environment = os.environ | {"PYTHONPATH": str(TESTS.parent), "JAXBAND_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "jaxband.cli", "sweep", spec, "--out", tmp_path / "out", "--engine", "ray"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 3, run.stderr[-2000:]
    said = "jaxband: cell with policy 'patient' on problem 'rising': Patient chose arm 7 in replication"
    assert said in run.stderr and "Traceback" not in run.stderr, run.stderr[-2000:]
    write_user_code(tmp_path)
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    assert len(unit_files(tmp_path / "out")) == 15


class Died(Exception):
    pass


class Failed(Exception):
    """A task whose function raised `cause`."""

    def __init__(self, cause):
        super().__init__(f"a page of traceback that ends with {cause}")
        self.cause = cause


class FakeRay:
    """Nodes of some CPUs; tasks are done one at a time, in order. `dies(node, unit)` says when an actor is lost."""

    exceptions = SimpleNamespace(RayActorError=Died, RayTaskError=Failed)

    def __init__(self, nodes, dies=lambda node, unit: False):
        self._nodes, self._dies, self._dead, self.runs = nodes, dies, set(), collections.Counter()
        self._names, self.versions = itertools.count(), execute.versions()

    def cluster_resources(self):
        return {"CPU": sum(self._nodes.values())}

    def nodes(self):
        return [{"NodeID": node, "Alive": True, "Resources": {"CPU": n}} for node, n in self._nodes.items()]

    def wait(self, tasks, timeout):
        return tasks[:1], tasks[1:]

    def get(self, task):
        actor, unit = task
        if actor.name in self._dead or (unit and self._dies(actor.node, unit)):
            self._dead.add(actor.name)
            raise Died("actor lost")
        if unit:
            self.runs[unit.identity] += 1
            return measured(unit)
        return self.versions

    def kill(self, actor):
        pass

    def actor(self, crew, slot):
        actor = SimpleNamespace(name=next(self._names), node=slot.node)
        actor.versions = SimpleNamespace(remote=lambda: (actor, None))
        actor.run = SimpleNamespace(
            remote=lambda cell, start, stop, rank: (actor, Unit(ray_cluster._cell(cell), start, stop))
        )
        # Ray's references are hashable and all different.
        for method in (actor.versions, actor.run):
            make = method.remote
            method.remote = lambda *a, make=make: Task(make(*a))
        return actor


class Task(tuple):
    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


@pytest.fixture
def engine_on(monkeypatch):
    def make(fake):
        monkeypatch.setattr(ray_cluster._ActorPool, "_actor", lambda crew, slot: fake.actor(crew, slot))
        return lambda units: ray_cluster._ActorPool(fake, {}).run(units)

    return make


def run(directory, engine):
    return sweep.run(small_spec(replications_per_unit=1), directory, engine=engine, progress=False, disk=Fast())


def test_units_of_dead_actors_are_run_again(tmp_path, engine_on):
    """Every third task loses its actor; all units are there in the end, each computed once."""
    count = itertools.count()
    fake = FakeRay({"a": 2, "b": 1}, dies=lambda node, unit: next(count) % 3 == 2)
    outcome = run(tmp_path, engine_on(fake))
    assert outcome.complete and outcome.units == 14
    assert set(fake.runs.values()) == {1}
    sweep.run(small_spec(replications_per_unit=1), tmp_path / "other", engine=engine_on(FakeRay({"a": 1})), disk=Fast())
    assert unit_files(tmp_path) == unit_files(tmp_path / "other")


def test_units_of_a_node_that_dies_last_are_run_by_those_who_had_nothing_left_to_do(tmp_path, engine_on, monkeypatch):
    """Its death is noticed when all others are idle, and no node takes its place."""

    class Late(FakeRay):
        def nodes(self):
            return [node for node in super().nodes() if node["NodeID"] == "a" or not self._dead]

        def wait(self, tasks, timeout):
            first = next((task for task in tasks if task[0].node == "a" or task[1] is None), tasks[0])
            return [first], [task for task in tasks if task is not first]

    rounds = itertools.count()
    monkeypatch.setattr(
        ray_cluster.interrupts, "raise_if_interrupted", lambda: next(rounds) < 200 or pytest.fail("waits for ever")
    )
    fake = Late({"a": 1, "b": 1}, dies=lambda node, unit: node == "b")
    outcome = run(tmp_path, engine_on(fake))
    assert outcome.complete and outcome.units == 14 and set(fake.runs.values()) == {1}


def test_a_unit_that_kills_every_actor_is_left_out(tmp_path, engine_on):
    bad = small_spec().cells()[0].identity
    fake = FakeRay({"a": 2}, dies=lambda node, unit: (unit.cell.identity, unit.start) == (bad, 3))
    outcome = run(tmp_path, engine_on(fake))
    assert not outcome.complete and outcome.done == outcome.units - 1
    assert sweep.load(tmp_path).missing == 4  # and what follows it in the same cell is not counted as unbroken


def test_actors_stay_with_a_shape(tmp_path, engine_on):
    """A slot goes on to another shape once, when there is nothing left of its own."""
    shapes = collections.defaultdict(list)

    def note(node, unit):
        shapes[node].append(unit.cell.settings["policy"])
        return False

    run(tmp_path, engine_on(FakeRay({"a": 1, "b": 1}, dies=note)))
    assert sum(map(len, shapes.values())) == 14
    for policies in shapes.values():
        assert sum(a != b for a, b in itertools.pairwise(policies)) <= 1


def test_a_node_with_other_versions_is_refused(tmp_path, engine_on):
    """Its results would not be the same bytes."""
    fake = FakeRay({"a": 1})
    fake.versions = execute.versions() | {"jaxlib": "0.0.1"}
    with pytest.raises(ValueError, match=r"a node has .*'jaxlib': '0.0.1'.*, this process .*: install the same on all"):
        run(tmp_path, engine_on(fake))
    assert not unit_files(tmp_path)


@pytest.mark.parametrize(("cause", "seen"), [(jb.PolicyError("cell …: no"), jb.PolicyError), (KeyError("x"), Failed)])
def test_what_a_users_code_raises_in_an_actor_is_raised_here(tmp_path, engine_on, cause, seen):
    """Another error is shown as Ray shows it, with the actor's traceback. What is done is kept."""
    done = []

    def fails(node, unit):
        done.append(unit)
        if len(done) > 4:
            raise Failed(cause)
        return False

    with pytest.raises(seen, match="cell …: no" if seen is jb.PolicyError else "a page of traceback"):
        run(tmp_path, engine_on(FakeRay({"a": 1}, dies=fails)))
    assert len(unit_files(tmp_path)) == 4


def test_without_ray_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'jaxband\[ray\]'"):
        sweep.ray_engine()
