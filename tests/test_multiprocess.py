"""One run split over two processes on one machine gives the totals of one process, to the last bit."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from jaxband._runtime import multiprocess
from jaxband.simulation import layout, summaries

pytestmark = pytest.mark.as_users

SCRIPT = """
import json, sys
import numpy as np
import jax
jax.config.update("jax_num_cpu_devices", 2)
port, process = sys.argv[1], int(sys.argv[2])
if port != "alone":
    jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=process)
import jaxband as jb
kernel = jb.kernels.SquaredExponential(2.0)
problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, 3, 6), noise=0.3)
policy = jb.policies.rgp_ts(kernel, 3, 6, 0.3, planner=jb.planners.exhaustive(2))
answers = []
for replications in map(int, sys.argv[3:]):
    result = jb.monte_carlo(policy, problem, horizon=12, replications=replications, batch_size=8,
                            lookahead=2, watch=("value",))
    assert len(jax.devices()) == (2 if port == "alone" else 4) and jax.local_device_count() == 2
    answers.append({
        "total": result.total_reward.tobytes().hex(), "plays": result.plays.tolist(),
        "watched": result.watched["value"].tobytes().hex(),
        "p05": result.bands["lookahead_regret"].p05.tobytes().hex(),
        "mean": result.bands["lookahead_regret"].mean.tolist(),
        "error": result.bands["lookahead_regret"].standard_error.tolist(),
    })
print(json.dumps(answers))
"""
REPLICATIONS = [45, 5]  # six batches of eight; one batch, so that a process has nothing to do


def start(port, process):
    environment = {name: value for name, value in os.environ.items() if name not in ("JAX_NUM_CPU_DEVICES",)}
    command = [sys.executable, "-c", SCRIPT, str(port), str(process), *map(str, REPLICATIONS)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def answer(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def answers():
    """For each number of replications: of the first process, of the second, and of one alone."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    pair = [start(port, 0), start(port, 1)]
    first, second = (answer(process) for process in pair)
    return dict(zip(REPLICATIONS, zip(first, second, answer(start("alone", 0)), strict=True), strict=True))


@pytest.mark.parametrize("replications", REPLICATIONS)
def test_two_processes_give_the_totals_of_one(answers, replications):
    first, second, alone = answers[replications]
    assert first == second
    for name in ("total", "plays", "watched", "p05"):
        assert first[name] == alone[name], name
    np.testing.assert_allclose(first["mean"], alone["mean"], rtol=1e-12)
    np.testing.assert_allclose(first["error"], alone["error"], rtol=1e-9)


def test_alone_nothing_is_exchanged():
    mine = {"x": np.arange(3)}
    assert multiprocess.all_gather(mine) == [mine]


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
def test_shares_are_stretches_that_cover_all_batches(processes):
    for number in range(12):
        shares = [layout.batches_of_process(number, process, processes) for process in range(processes)]
        assert [batch for batches in shares for batch in batches] == list(range(number))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_merged_bands_are_those_of_one_builder(monkeypatch):
    monkeypatch.setattr(summaries, "BAND_REPLICATIONS", 8)
    curves = 1e4 + np.random.default_rng(0).normal(size=(20, 3))
    whole, parts = summaries.TrajectoryStats(), []
    whole.add(curves)
    for piece in np.split(curves, [5, 6, 15]):
        builder = summaries.TrajectoryStats()
        builder.add(piece)
        parts.append(builder.arrays())
    for ours, expected in zip(summaries.TrajectoryStats.merged(parts).band(), whole.band(), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9)
