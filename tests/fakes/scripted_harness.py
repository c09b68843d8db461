"""A program that behaves in a terminal like Claude Code 2.1.330, with a script and without
a model.

It reads bracketed pastes, Enter and keys from its terminal, runs the command hooks and the
status line of Claude's settings with Claude's payloads, keeps threads and
`sessions/<pid>.json` in Claude's formats, and logs what reached it. `scripted/rules.py`
describes scripts, `scripted/actions.py` what can happen in a turn.

Environment: `SCRIPTED_HARNESS` is the script (read again at every prompt), `SCRIPTED_LOG`
the log.
"""

import importlib
import os
import shlex
import sys
from pathlib import Path


def install_scripted(folder: Path) -> Path:
    """Put a `claude` into a folder, for a test to put first on its PATH; return the program's
    path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "claude"
    command = shlex.join((sys.executable, "-I", "-S", os.path.abspath(__file__)))
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return program


if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    importlib.import_module("fakes.scripted.terminal").main(sys.argv[1:])
