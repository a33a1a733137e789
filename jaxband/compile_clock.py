"""How long JAX spends on tracing, lowering and compiling, from its own monitoring events."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import jax

_seconds = 0.0
_lock = threading.Lock()


def _listen(event: str, seconds: float, **_) -> None:
    global _seconds
    if event.startswith("/jax/core/compile/"):
        with _lock:
            _seconds += seconds


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextlib.contextmanager
def compile_clock() -> Iterator[Callable[[], float]]:
    """Yields a function that says how many seconds went into compiling since."""
    before = _seconds
    yield lambda: _seconds - before
