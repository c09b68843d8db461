"""Become the program inside a new tmux pane. Run as a script, with the standard library alone.

A command given to tmux is limited to 16 KiB and visible to every user of the machine, so
arguments and environment come through a pipe in the file system (a FIFO), named in argv[1];
or, after `--order`, in a file of which only one of several windows can become the program.
"""

import json
import os
import sys

PANE_VARIABLES = ("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "TMUX", "TMUX_PANE")
"""Variables that describe the terminal: the pane's own, never those of the caller."""
CALLER_VARIABLES = ("COLUMNS", "LINES", "OLDPWD", "PWD", "STY", "WINDOW", "WINDOWID")
"""Variables that describe where the caller ran."""


def main() -> None:
    """Read `{"argv", "cwd", "env"}` and run it in place of this process."""
    data = _take_order(sys.argv[2]) if sys.argv[1] == "--order" else _read_pipe(sys.argv[1])
    order = json.loads(data)
    pane = {name: os.environ[name] for name in PANE_VARIABLES if name in os.environ}
    kept_env = {
        name: value
        for name, value in order["env"].items()
        if name not in PANE_VARIABLES and name not in CALLER_VARIABLES
    }
    try:
        os.chdir(order["cwd"])
        os.execve(order["argv"][0], order["argv"], kept_env | pane | {"PWD": order["cwd"]})
    except OSError as error:
        sys.exit(f"{order['argv'][0]} cannot be run in {order['cwd']}: {error}")


def _read_pipe(pipe: str) -> bytes:
    with open(pipe, "rb") as stream:
        if data := stream.read():
            return data
    sys.exit("tasuki ended before it said what to start.")


def _take_order(path: str) -> bytes:
    """Return the order in a file if this process removes it first; a second window just closes."""
    try:
        with open(path, "rb") as stream:
            os.unlink(path)
            return stream.read()
    except FileNotFoundError:
        sys.exit(0)
    except OSError as error:
        sys.exit(f"The order {path} cannot be read: {error}")


if __name__ == "__main__":
    main()
