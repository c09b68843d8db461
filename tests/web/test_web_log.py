"""The server's log: one line for an event, whatever agents wrote."""

import io
import logging
import re
from collections.abc import Iterator

import pytest

from tasuki.web.server import log_to

FORGED = "2026-11-24 01:02:03 WARNING Agent 7 was handed off."
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
_LINE = re.compile(r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]+ |  \| )")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is logged during a test; the loggers are as before behind it."""
    loggers = [logging.getLogger(name) for name in (None, "tasuki", "uvicorn.error")]
    before = [(one, one.level, list(one.handlers)) for one in loggers]
    made = io.StringIO()
    log_to(made)
    yield made
    for one, level, handlers in before:
        one.setLevel(level)
        one.handlers = handlers


def is_forged(logged: str) -> bool:
    """Whether a line of the log is one that was not logged."""
    lines = logged.removesuffix("\n").split("\n")
    return any(line.startswith(FORGED) or not _LINE.match(line) for line in lines)


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[1E", "\x1b[2K\x1b[G"],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("redacted", [True, False])
def test_a_message_is_one_line(stream: io.StringIO, end: str, redacted: bool) -> None:
    """No character of a message ends its line, moves the cursor, or hides what stands before it."""
    said = f"Its screen said:{end}{FORGED}"
    logging.getLogger("tasuki.web").warning("%s", said, extra={"redacted": redacted})
    logged = stream.getvalue()

    assert len(logged.splitlines()) == 1
    assert not is_forged(logged)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", logged)
    assert "Its screen said:" in logged


def test_a_traceback_has_no_line_of_its_own(stream: io.StringIO) -> None:
    """The lines of a traceback are marked: the words of an exception cannot look like another event."""
    try:
        raise ValueError(f"no\n{FORGED}\n{KEY}")
    except ValueError:
        logging.getLogger("tasuki.fleet").exception("Step\n%s", FORGED)
    logged = stream.getvalue()

    assert "ValueError: no" in logged
    assert KEY not in logged
    assert not is_forged(logged)


def test_a_secret_in_a_message_is_replaced(stream: io.StringIO) -> None:
    """A key in a message that is not redacted yet is taken out, also where it has several lines."""
    logging.getLogger("tasuki.web").warning("it was %s\nand more", KEY)

    assert KEY not in stream.getvalue()
    assert "it was" in stream.getvalue()
