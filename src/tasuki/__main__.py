"""`tasuki`, and `python -m tasuki`: nothing else imports this module.

Until the command line is loaded, Ctrl-C ends the process at once, as it ends a program in C: Python
would print a traceback, or lose the interrupt in the middle of an import.
"""

# `signal` loads for some milliseconds, in which an interrupt would be a traceback.
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)

IS_USUAL = getsignal(SIGINT) is default_int_handler  # It is ignored after nohup, and stays so.
if IS_USUAL:
    signal(SIGINT, SIG_DFL)

import sys  # noqa: E402

# msgspec prefers it to `typing`, which does as well here and is loaded anyway.
sys.modules["typing_extensions"] = None  # type: ignore[assignment]
import msgspec  # noqa: E402, F401

del sys.modules["typing_extensions"]

from tasuki.cli.main import main as run_command_line  # noqa: E402


def main() -> None:
    """Run the command line; from here on it says itself what an interrupt means."""
    if IS_USUAL:
        signal(SIGINT, default_int_handler)
    run_command_line()


if __name__ == "__main__":
    main()
