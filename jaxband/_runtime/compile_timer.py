"""How long JAX spends on tracing, lowering and compiling, from its own monitoring events, for the calling thread."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import jax

_spent = threading.local()


def _listen(event: str, seconds: float, **_) -> None:
    if event.startswith("/jax/core/compile/"):
        _spent.seconds = getattr(_spent, "seconds", 0.0) + seconds


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextlib.contextmanager
def compile_timer() -> Iterator[Callable[[], float]]:
    """Yields a function that says how many seconds went into compiling since."""
    before = getattr(_spent, "seconds", 0.0)
    yield lambda: getattr(_spent, "seconds", 0.0) - before
