"""The command line: parse, call, print."""

import sys
from types import TracebackType


def _exit_quietly(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """End without a traceback on Ctrl-C while the program still loads."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _exit_quietly
