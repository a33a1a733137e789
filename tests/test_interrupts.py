"""Ctrl-C is raised between two steps, and at once when it is pressed again."""

import signal
import threading

import pytest

from jaxband._runtime import interrupts

pytestmark = pytest.mark.as_users


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_is_held_back_until_it_is_let_through():
    steps = []
    with pytest.raises(KeyboardInterrupt), interrupts.defer_interrupts():
        signal.raise_signal(signal.SIGINT)
        steps.append("rest of the step")
        interrupts.raise_if_interrupted()
        steps.append("next step")
    assert steps == ["rest of the step"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_is_raised_at_once_and_none_is_left_over():
    with pytest.raises(KeyboardInterrupt), interrupts.defer_interrupts():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # noted again; raised at the end
    interrupts.raise_if_interrupted()


def test_one_that_nobody_let_through_is_raised_at_the_end():
    with pytest.raises(KeyboardInterrupt), interrupts.defer_interrupts():
        signal.raise_signal(signal.SIGINT)


def test_a_handler_of_the_users_stays():
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    with interrupts.defer_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGINT]


def test_inside_another_and_in_other_threads_nothing_is_installed():
    with interrupts.defer_interrupts():
        outer = signal.getsignal(signal.SIGINT)
        with interrupts.defer_interrupts():
            assert signal.getsignal(signal.SIGINT) is outer
        assert signal.getsignal(signal.SIGINT) is outer
    thread = threading.Thread(target=lambda: interrupts.defer_interrupts().__enter__())
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
