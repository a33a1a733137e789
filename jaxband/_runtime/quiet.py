"""XLA's false alarm when it fetches a compiled program, kept off the terminal.

On processors with AVX-512 XLA tunes for `prefer-no-gather` and then, when a program comes from the persistent cache,
takes that for a feature that the processor lacks: some kilobytes of "could lead to execution errors such as SIGILL" for
every program, though it runs well. So XLA's log level is raised while a program is fetched or compiled, and only then;
what fails there is still raised as an exception, and errors at other times are still shown. JAX's own monitoring
events say when that is.
"""

import os
import threading

import jax
from jaxlib import utils

BEGIN = "/jax/compilation_cache/compile_requests_use_cache"
END = "/jax/core/compile/backend_compile_duration"
FATAL = 3  # of Abseil's severities
LEVELS = {"DEBUG": 0, "INFO": 0, "WARNING": 1, "ERROR": 2, "CRITICAL": 3}

_lock = threading.Lock()
_open: dict[int, int] = {}  # by thread: programs that are being fetched


def hush_program_loading() -> None:
    """Listen to JAX's events from now on; once is enough."""
    jax.monitoring.register_event_listener(_began)
    jax.monitoring.register_event_duration_secs_listener(_ended)


def _began(event: str, **_) -> None:
    if event == BEGIN:
        with _lock:
            thread = threading.get_ident()
            _open[thread] = _open.get(thread, 0) + 1
            utils.absl_set_min_log_level(FATAL)


def _ended(event: str, seconds: float, **_) -> None:
    if event == END and _open:
        with _lock:
            thread = threading.get_ident()
            if _open.get(thread, 0) > 1:
                _open[thread] -= 1
            else:
                _open.pop(thread, None)
            if not _open:
                utils.absl_set_min_log_level(usual_level())


def usual_level() -> int:
    """What JAX has set, by TF_CPP_MIN_LOG_LEVEL or by its own option."""
    chosen = str(jax.config.jax_logging_level or "").upper()
    return LEVELS.get(chosen, int(os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1")))
