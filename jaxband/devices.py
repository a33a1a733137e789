"""Use every core: one virtual CPU device per core, set when jaxband is imported and JAX has not started yet.

A user who sets JAX_NUM_CPU_DEVICES, `jax_num_cpu_devices` or the matching XLA flag keeps that choice.
"""

import contextlib
import os

import jax


def one_per_core() -> None:
    """Ask JAX for as many CPU devices as there are cores. Starts no backend; does nothing if one is running."""
    chosen = jax.config.jax_num_cpu_devices > 0 or "xla_force_host_platform_device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if chosen or cores == 1:
        return
    with contextlib.suppress(RuntimeError):  # the backend is already up: work with the devices it has
        jax.config.update("jax_num_cpu_devices", cores)
