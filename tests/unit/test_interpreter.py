"""The search for cycles pauses while a thread is read, and goes on as it was."""

import gc
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from tasuki.interpreter import pause_collector


@pytest.fixture(autouse=True)
def _searching() -> Iterator[None]:
    """The search is on, whatever a test before has left."""
    was_on = gc.isenabled()
    gc.enable()
    yield
    if not was_on:
        gc.disable()


def test_it_pauses_and_goes_on() -> None:
    """No search in the block, nor in a block within it; afterwards all is as before."""
    assert gc.isenabled()
    with pause_collector():
        with pause_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    """A block that raises ends its pause."""
    try:
        with pause_collector():
            raise ValueError
    except ValueError:
        assert gc.isenabled()


def test_a_command_that_wants_none_keeps_it_so() -> None:
    """What was switched off for good stays off."""
    gc.disable()
    try:
        with pause_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_pauses_of_threads_overlap() -> None:
    """The search goes on when the last of several threads leaves its block."""
    is_inside, may_end = Event(), Event()

    def read() -> None:
        with pause_collector():
            is_inside.set()
            may_end.wait(10)

    other = Thread(target=read)
    with pause_collector():
        other.start()
        is_inside.wait(10)
    assert not gc.isenabled()
    may_end.set()
    other.join(10)
    assert gc.isenabled()
