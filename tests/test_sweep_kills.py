"""SIGKILL at random moments of real sweeps: after resuming, every byte is that of a sweep that was left alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_tools import collected, temporaries, unit_files

SPEC = """
name = "kills"
horizon = 3
replications = 60
unit = 1
problems.p = { family = "table", rows = [[0.0, 1.0], [0.3, 0.4]] }
grid = { policy = "round_robin", noise = [0.1, 0.2] }
"""
TESTS = Path(__file__).parent


def kill_sweeps(tmp_path, kills, seed):
    (tmp_path / "spec.toml").write_text(SPEC)
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
@pytest.mark.parametrize("kills", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_random_kills_change_no_byte(tmp_path, kills):
    report = kill_sweeps(tmp_path, kills, seed=kills)
    print(report)
    assert report["killed"] == kills
    whole = tmp_path / "sweeps" / "whole"
    assert len(unit_files(whole)) == 120
    for number in range(report["finished"]):
        directory = tmp_path / "sweeps" / f"killed-{number}"
        assert collected(directory) == collected(whole)
        assert unit_files(directory) == unit_files(whole)
        assert not temporaries(directory)
        assert not (directory / "rejected").exists()
