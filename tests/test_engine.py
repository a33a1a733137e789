"""What the compiled run looks like: in place, whole loops, compiled once; and how it ends when interrupted."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxband as jb
from jaxband._runtime import devices
from jaxband.simulation import dispatch, layout, metrics, rollout

pytestmark = pytest.mark.as_users

KERNEL = jb.kernels.SquaredExponential(3.0)
PROBLEM = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, 5, 20), noise=0.1)


def python(code: str, **environment: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if name not in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS")}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("make", [jb.policies.rgp_ucb, jb.policies.rgp_ts])
def test_rounds_update_the_posterior_in_place_and_in_whole_loops(make):
    """No copy of the largest array, no temporary arrays beyond one state, no loop split over cores, no dead counts."""
    policy, mesh = make(KERNEL, 5, 20, 0.1), Mesh(np.array(jax.devices()[:1]), ("works",))
    plan = layout.make_layout(1000, 1, metrics.standard(idle=False))
    job, one = dispatch.make_job(policy, PROBLEM, 0, plan), np.ones(1, np.int32)
    leaves = tuple(leaf[None] for leaf in job.leaves)
    tables = np.zeros((plan.batches_per_dispatch, plan.batch_size, 5, 21), np.float32)
    compiled = dispatch._run_works.lower(leaves, tables, one, one, job.structure, plan, mesh).compile()
    text, columns = compiled.as_text(), policy.prior.columns
    shape = ",".join(map(str, (plan.batch_size, *columns.shape)))
    assert f"f32[{shape}]" in text
    assert not re.search(rf"f32\[{shape}\]\S* copy\(", text)
    assert 'outer_dimension_partitions":["' not in text
    counts = ",".join(map(str, (plan.batch_size, *policy.prior.counts.shape)))
    assert f"s32[{counts}]" not in text
    state_bytes = plan.batch_size * sum(leaf.nbytes for leaf in jax.tree.leaves(policy.prior))
    assert compiled.memory_analysis().temp_size_in_bytes < state_bytes


def test_long_runs_refresh_the_posterior(compiled_quickly, monkeypatch):
    """Refreshed every 16 rounds, on two devices: the same rewards as without, as nothing has drifted yet."""
    policy = jb.policies.rgp_ucb(KERNEL, 5, 20, 0.1)
    options = {"horizon": 100, "replications": 130, "devices": jax.devices()[:2]}
    usual = jb.monte_carlo(policy, PROBLEM, **options)
    once = jb.simulate(policy, PROBLEM, jax.random.fold_in(jax.random.key(0), 0), 100)
    refreshed = []
    original = type(policy).refresh
    monkeypatch.setattr(type(policy), "refresh", lambda self, state: refreshed.append(1) or original(self, state))
    monkeypatch.setattr(rollout, "REFRESH_EVERY", 16)
    jax.clear_caches()
    often = jb.monte_carlo(policy, PROBLEM, **options)
    assert refreshed
    np.testing.assert_allclose(often.total_reward, usual.total_reward, atol=1e-3)
    assert (often.plays.sum(axis=1) == 100).all()
    for horizon in (100, 96, 16):  # 96 and 16: the last stretch is as long as the others
        refreshed.clear()
        again = jb.simulate(policy, PROBLEM, jax.random.fold_in(jax.random.key(0), 0), horizon)
        np.testing.assert_array_equal(again.arms, once.arms[:horizon])
        assert bool(refreshed) == (horizon > 16)
        if horizon == 100:
            np.testing.assert_allclose(again.state.posterior.variance, once.state.posterior.variance, rtol=1e-3)
    jax.clear_caches()


@pytest.mark.parametrize(("first", "num_rounds", "due"), [(0, 8, 0), (8, 8, 0), (16, 8, 1), (24, 8, 0), (20, 8, 1)])
def test_a_refresh_is_due_when_a_multiple_was_passed(monkeypatch, first, num_rounds, due):
    monkeypatch.setattr(rollout, "REFRESH_EVERY", 16)

    class Refreshes(jb.Policy):
        def refresh(self, state):
            return state + 1

    position = rollout.ReplicationState(np.int32(0), None, None)
    assert rollout.refresh_if_due(Refreshes(), position, np.int32(first), num_rounds).state == due


PREPARE = """
import jaxband as jb
kernel = jb.kernels.SquaredExponential(3.0)
problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, 5, 20), noise=0.1)
"""


def test_a_second_process_finds_what_the_first_compiled(tmp_path):
    code = "import jax; jax.config.update('jax_persistent_cache_min_compile_time_secs', 0); hits = []\n"
    code += "jax.monitoring.register_event_listener(lambda event, **_: hits.append('cache_hits' in event))\n"
    code += PREPARE + "policy = jb.policies.rgp_ts(kernel, 5, 20, 0.1)\n"
    code += "result = jb.monte_carlo(policy, problem, horizon=30, replications=70)\n"
    code += "print(sum(hits), result.total_reward.tobytes().hex())"
    hits, totals = zip(*(python(code, JAXBAND_CACHE=str(tmp_path)).stdout.split() for _ in range(2)), strict=True)
    assert totals[0] == totals[1]
    assert int(hits[0]) < int(hits[1])
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith(f"jaxlib-{jax.lib.__version__}-")
    assert any("_run_works" in file.name for file in folder.iterdir())


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"JAXBAND_CACHE": "off"}, "None"),
        ({"JAXBAND_CACHE": "off", "JAX_COMPILATION_CACHE_DIR": "/mine"}, "/mine"),
        ({"JAXBAND_CACHE": "", "JAX_COMPILATION_CACHE_DIR": "/mine"}, "/mine"),
        ({"JAXBAND_CACHE": "", "XDG_CACHE_HOME": "/some"}, "/some/jaxband/jaxlib-"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other platforms have other directories")
def test_where_compiled_programs_are_kept(environment, directory):
    out = python("import jaxband, jax; print(jax.config.jax_compilation_cache_dir)", **environment).stdout
    assert out.startswith(directory)


def test_importing_is_light():
    """No plotting, no optimisers, no command line; the time itself is in benchmarks/compile_time.py."""
    heavy = {"matplotlib", "rich", "scipy.optimize", "optax", "chex"}
    ours, jax_alone = (
        python(f"import sys, {module}; print(*{heavy} & set(sys.modules))").stdout.split()
        for module in ("jaxband", "jax")
    )
    assert ours == jax_alone


def test_jax_that_runs_already_is_used_and_one_warning_says_so():
    code = "import jax; jax.numpy.zeros(3)\nimport warnings; warnings.simplefilter('always')" + PREPARE
    for policy in ("round_robin(5)", "random(5)"):
        code += f"jb.monte_carlo(jb.policies.{policy}, problem, horizon=3, replications=3)\n"
    code += "print(len(jax.devices()))"
    run = python(code)
    assert run.stdout.strip() == "1"
    assert run.stderr.count("JAX was running before jaxband was imported") == (devices.num_cores() > 1)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for children")
def test_an_interrupt_ends_a_long_run_within_a_chunk():
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # also if we were told to ignore it
{PREPARE}
policy = jb.policies.round_robin(5)
jb.monte_carlo(policy, problem, horizon=30, replications=70)
print("ready", flush=True)
try:
    jb.monte_carlo(policy, problem, horizon=30, replications=4_000_000_000)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        try:
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
    assert out == "interrupted\n" and child.returncode == 0


def test_the_progress_bar_shows_rate_and_remaining_time(monkeypatch):
    import rich.console

    from jaxband._runtime import progress

    console = rich.console.Console(force_terminal=True, width=100, record=True, file=io.StringIO())
    monkeypatch.setattr(rich.console, "Console", lambda **_: console)
    with progress.bar("replications", 100, enabled=True) as advance:
        for _ in range(5):
            advance(10)
            time.sleep(0.05)
    shown = console.export_text()
    assert "replications" in shown and "50/100" in shown and "/s" in shown and re.search(r"\d:\d\d:\d\d", shown)
