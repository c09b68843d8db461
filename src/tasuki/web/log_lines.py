"""The server's log: each event is one line, and what agents and requests wrote cannot look like another."""

import logging
import re
from typing import TextIO

from tasuki.draft.redact import redact
from tasuki.plain import shown

CONTINUED = "  | "
"""Begins each further line of an event: those of a traceback."""
_BREAK = re.compile("[\n\u2028\u2029]")


class LineFormatter(logging.Formatter):
    """One line for a message, without secrets, line breaks and control characters.

    A message of the fleet's log comes redacted. A traceback follows, its lines marked.
    """

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if not getattr(record, "redacted", False):
            message = redact(message)[0]
        head = f"{self.formatTime(record, self.datefmt)} {record.levelname}"
        one_line = "\\n".join(_BREAK.split(shown(message)))
        lines = [f"{head} {one_line}"]
        if record.exc_info:
            lines += _marked(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _marked(self.formatStack(record.stack_info))
        return "\n".join(lines)


def _marked(text: str) -> list[str]:
    return [f"{CONTINUED}{line}" for line in _BREAK.split(shown(redact(text)[0]))]


def log_to(stream: TextIO) -> None:
    """Send what the server logs to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(datefmt="%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("tasuki").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what it says is said here
