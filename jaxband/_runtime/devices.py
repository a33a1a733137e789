"""Use every core: one virtual CPU device per core, set when jaxband is imported and JAX has not started yet.

A user who sets JAX_NUM_CPU_DEVICES, `jax_num_cpu_devices` or the matching XLA flag keeps that choice.
"""

import os
import warnings

import jax

_too_late = False  # was the backend up before we could ask?


def request_device_per_core() -> None:
    """Ask JAX for as many CPU devices as there are cores. Starts no backend; does nothing if one is running."""
    global _too_late
    chosen = jax.config.jax_num_cpu_devices > 0 or "xla_force_host_platform_device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    if chosen or num_cores() == 1:
        return
    try:
        jax.config.update("jax_num_cpu_devices", num_cores())
    except RuntimeError:  # the backend is already up: work with the devices it has
        _too_late = True


def num_cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warn_if_cores_idle() -> None:
    """Warn once, when work begins, if JAX was started before jaxband and so uses one core of several."""
    global _too_late
    if _too_late and jax.local_device_count() == 1 and jax.default_backend() == "cpu":
        what = f"JAX was running before jaxband was imported and has one CPU device for {num_cores()} cores"
        warnings.warn(f"{what}; import jaxband first, or set JAX_NUM_CPU_DEVICES={num_cores()}", stacklevel=3)
    _too_late = False
