"""Ctrl-C between two steps of a long loop, not in the middle of one.

Python raises KeyboardInterrupt wherever it happens to be: in a callback that swallows it, or while devices compute for
a process that is about to exit. Inside `defer_interrupts()` it is noted instead, and raised by
`raise_if_interrupted()`.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

import jax

_noted = threading.Event()


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Hold back the first Ctrl-C until `raise_if_interrupted()` or the end; a second one is raised at once.

    Changes nothing in other threads than the main one, or where the user has a handler of their own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise_if_interrupted()


def raise_if_interrupted(after=None) -> None:
    """Raise KeyboardInterrupt if one is defer_interrupts back, once the arrays in `after` are computed.

    A process that exits while its devices compute may crash.
    """
    if _noted.is_set():
        jax.block_until_ready(after)
        _noted.clear()
        raise KeyboardInterrupt


def _note(number, frame) -> None:
    if _noted.is_set():
        raise_if_interrupted()
    _noted.set()
