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
from sweep_tools import Fast, collected, measured, small_spec, unit_files

from jaxband import sweep
from jaxband.sweep import cluster, compute
from jaxband.sweep.units import Unit

SPEC = """
name = "ray"
horizon = 6
replications = 1000
unit = 40
problems.p = { family = "table", rows = [[0.0, 1.0, 1.0], [0.3, 0.4, 0.5]] }
grid = { policy = ["random", "round_robin"], noise = [0.1, 0.2] }
"""
TESTS = Path(__file__).parent


@pytest.mark.slow
def test_a_node_killed_in_the_middle_changes_no_byte(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'jaxband[ray]'")
    (tmp_path / "spec.toml").write_text(SPEC)
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
    sweep.run(sweep.read(tmp_path / "spec.toml"), tmp_path / "local", progress=False)
    assert unit_files(tmp_path / "ray") == unit_files(tmp_path / "local")
    assert collected(tmp_path / "ray") == collected(tmp_path / "local")


class Died(Exception):
    pass


class FakeRay:
    """Nodes of some CPUs; tasks are done one at a time, in order. `dies(node, unit)` says when an actor is lost."""

    exceptions = SimpleNamespace(RayActorError=Died)

    def __init__(self, nodes, dies=lambda node, unit: False):
        self._nodes, self._dies, self._dead, self.runs = nodes, dies, set(), collections.Counter()
        self._names, self.versions = itertools.count(), compute.versions()

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
        actor.run = SimpleNamespace(remote=lambda cell, start, stop: (actor, Unit(cluster._cell(cell), start, stop)))
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
        monkeypatch.setattr(cluster._Crew, "_actor", lambda crew, slot: fake.actor(crew, slot))
        return lambda units: cluster._Crew(fake, {}).run(units)

    return make


def run(directory, engine):
    return sweep.run(small_spec(unit=1), directory, engine=engine, progress=False, disk=Fast())


def test_units_of_dead_actors_are_run_again(tmp_path, engine_on):
    """Every third task loses its actor; all units are there in the end, each computed once."""
    count = itertools.count()
    fake = FakeRay({"a": 2, "b": 1}, dies=lambda node, unit: next(count) % 3 == 2)
    outcome = run(tmp_path, engine_on(fake))
    assert outcome.complete and outcome.units == 14
    assert set(fake.runs.values()) == {1}
    sweep.run(small_spec(unit=1), tmp_path / "other", engine=engine_on(FakeRay({"a": 1})), disk=Fast())
    assert unit_files(tmp_path) == unit_files(tmp_path / "other")


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
    fake.versions = compute.versions() | {"jaxlib": "0.0.1"}
    with pytest.raises(ValueError, match=r"a node has .*'jaxlib': '0.0.1'.*, this process .*: install the same on all"):
        run(tmp_path, engine_on(fake))
    assert not unit_files(tmp_path)


def test_without_ray_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'jaxband\[ray\]'"):
        sweep.ray_engine()
