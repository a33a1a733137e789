"""Importing jaxband: one CPU device per core, no backend started, the user's choice kept."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.as_users

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def python(code: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("environment", "devices"),
    [
        ({}, CORES),
        ({"JAX_NUM_CPU_DEVICES": "5"}, 5),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}, 4),
    ],
)
def test_number_of_devices(environment, devices):
    assert python("import jaxband, jax; print(len(jax.devices()))", **environment) == str(devices)


def test_import_starts_no_backend():
    code = "import jaxband; from jax._src import xla_bridge; print(xla_bridge.backends_are_initialized())"
    assert python(code) == "False"


def test_a_running_backend_is_used_as_it_is():
    code = "import jax; jax.numpy.zeros(3); import jaxband; print(len(jax.devices()))"
    assert python(code) == "1"
