"""What importing jaxband does to a process: a quiet terminal on every run, a cache of limited size, and a switch."""

import os
import subprocess
import sys

import pytest

from jaxband._runtime import compile_cache, quiet

pytestmark = pytest.mark.as_users

EXAMPLE = """\
import sys
if "jax first" in sys.argv:
    import jax
    jax.numpy.zeros(3).block_until_ready()
import jaxband as jb
problem = jb.Problem([[0.0, 0.5, 1.0], [0.3, 0.3, 0.3]], noise=0.1)
print(jb.monte_carlo(jb.policies.round_robin(2), problem, horizon=10, replications=4).plays[0].tolist())
"""


def run(*arguments, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("JAX_NUM_CPU_DEVICES", "JAXBAND_CACHE", "XLA_FLAGS")}
    environment = {"JAX_NUM_CPU_DEVICES": "1"} | environment
    return subprocess.run(
        [sys.executable, "-c", *arguments], env=clean | environment, capture_output=True, text=True, check=True
    )


def test_nothing_is_said_on_the_first_and_on_later_runs(tmp_path):
    """The second run fetches its programs from the cache, the third has a backend before jaxband."""
    for arguments in ((), (), ("jax first",)):
        done = run(EXAMPLE, *arguments, JAXBAND_CACHE=str(tmp_path))
        assert done.stdout == "[5, 5]\n" and done.stderr == ""
    assert any(tmp_path.rglob("*-cache"))


def test_the_log_level_is_raised_only_while_a_program_is_fetched(monkeypatch):
    levels = []
    monkeypatch.setattr(quiet.utils, "absl_set_min_log_level", levels.append)
    monkeypatch.setattr(quiet, "_open", {})
    for event in (quiet.BEGIN, "/jax/other"):
        quiet._began(event)
    quiet._began(quiet.BEGIN)
    quiet._ended("/jax/other", 0.1)
    quiet._ended(quiet.END, 0.1)
    assert levels == [quiet.FATAL] * 2
    quiet._ended(quiet.END, 0.1)
    quiet._ended(quiet.END, 0.1)  # of a program that was not looked for in the cache
    assert levels == [quiet.FATAL] * 2 + [quiet.usual_level()]


@pytest.mark.parametrize(("chosen", "level"), [("", 1), ("2", 2)])
def test_the_usual_level_is_the_users(monkeypatch, chosen, level):
    if chosen:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", chosen)
    else:
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    assert quiet.usual_level() == level


def test_the_cache_is_pruned_oldest_first(tmp_path):
    for age in range(10):
        path = tmp_path / f"program-{age}"
        path.write_bytes(b"x" * 100)
        os.utime(path, (10**9 - age, 10**9 - age))
    compile_cache.prune(tmp_path, largest=1000)
    assert len(os.listdir(tmp_path)) == 10
    compile_cache.prune(tmp_path, largest=900)
    assert sorted(os.listdir(tmp_path)) == [f"program-{age}" for age in range(4)]
    compile_cache.prune(tmp_path / "nowhere")


def test_the_switch_leaves_jax_as_it_is():
    code = "import jax, jaxband; print(jax.config.jax_num_cpu_devices, jax.config.jax_compilation_cache_dir)"
    clean = {k: v for k, v in os.environ.items() if k not in ("JAX_NUM_CPU_DEVICES", "JAXBAND_CACHE", "XLA_FLAGS")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | {"JAXBAND_SETUP": "off"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "-1 None\n"
