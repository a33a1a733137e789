"""SIGKILL at random moments of real sweeps: after resuming, every byte is that of a sweep that was left alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_tools import USERS_SPEC, collected, temporaries, unit_files, write_user_code

pytestmark = pytest.mark.as_users

OF_LIBRARY = """
name = "kills"
horizon = 3
replications = 60
replications_per_unit = 1
problems.p = { family = "table", rows = [[0.0, 1.0], [0.3, 0.4]] }
grid = { policy = "round_robin", noise = [0.1, 0.2] }
"""
OF_USER = (
    USERS_SPEC.replace("replications = 9", "replications = 40")
    .replace("replications_per_unit = 2", "replications_per_unit = 1")
    .replace("[1, 2]", "2")
)
TESTS = Path(__file__).parent


def kill_sweeps(tmp_path, spec, kills, seed):
    write_user_code(tmp_path, spec)
    environment = os.environ | {
        "PYTHONPATH": str(TESTS.parent),
        "JAXBAND_CACHE": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_NUM_CPU_DEVICES": "2",
    }
    arguments = [tmp_path / "spec.toml", tmp_path / "sweeps", str(kills), str(seed)]
    (tmp_path / "sweeps").mkdir()
    run = subprocess.run(
        [sys.executable, TESTS / "sweep_kills.py", *arguments], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("spec", "units", "kills"),
    [
        pytest.param(OF_LIBRARY, 120, 10, id="library"),
        pytest.param(OF_USER, 80, 3, id="user"),
        pytest.param(OF_LIBRARY, 120, 300, id="library, often", marks=pytest.mark.slow),
        pytest.param(OF_USER, 80, 100, id="user, often", marks=pytest.mark.slow),
    ],
)
def test_random_kills_change_no_byte(tmp_path, spec, units, kills):
    """Of the library's own policies, and of a policy, a problem and a metric of a user's own."""
    report = kill_sweeps(tmp_path, spec, kills, seed=kills)
    print(report)
    assert report["killed"] == kills
    whole = tmp_path / "sweeps" / "whole"
    assert len(unit_files(whole)) == units
    for number in range(report["finished"]):
        directory = tmp_path / "sweeps" / f"killed-{number}"
        assert collected(directory) == collected(whole)
        assert unit_files(directory) == unit_files(whole)
        assert not temporaries(directory)
        assert not (directory / "rejected").exists()
