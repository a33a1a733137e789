"""What importing jaxband changes in JAX, all in one place, and the switch that turns it off.

- `jax_num_cpu_devices`: one CPU device per core, if JAX has not started yet and the user has not chosen a number;
- `jax_compilation_cache_dir`: compiled programs are kept in the user's cache directory, unless one is set already; with
  it `jax_persistent_cache_min_compile_time_secs` = 0 (small programs too);
- XLA's false alarm when such a program is fetched is kept off the terminal (`quiet`).

JAXBAND_SETUP=off in the environment leaves JAX as it is; then `monte_carlo` uses the devices that there are.
"""

import os

from jaxband._runtime import compile_cache, devices, quiet

OFF = ("off", "0", "false", "no")


def configure() -> None:
    """Ask JAX for a device per core and for a persistent cache. Starts no backend, writes nothing."""
    if os.environ.get("JAXBAND_SETUP", "").lower() in OFF:
        return
    devices.request_device_per_core()
    compile_cache.enable()
    quiet.hush_program_loading()
