"""Carries out the plan in the file argv[1] in this terminal; the result goes to the file argv[2]."""

import sys
import termios
from pathlib import Path

import msgspec

from tasuki.errors import TasukiError
from tasuki.harness.protocol import LaunchPlan
from tasuki.launch import start


def main() -> None:
    """Start, and tell what came of it and whether the terminal is as it was."""
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=LaunchPlan)
    before = termios.tcgetattr(0) if sys.stdin.isatty() else None
    told = ""
    try:
        told = msgspec.json.encode(start(plan, "here")).decode()
    except TasukiError as error:
        told = f"{type(error).__name__}: {error}"
    except SystemExit as end:
        told = f"ended {end.code}"
        raise
    finally:
        same = before is None or termios.tcgetattr(0) == before
        Path(sys.argv[2]).write_text(f"{told}\nterminal {'kept' if same else 'changed'}\n")
        print("back", flush=True)


main()
