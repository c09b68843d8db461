"""Starts programs for tests by forking: what they import is imported already.

Reads one request as JSON from each line of standard input and answers with a line:
`{"load": [module]}` imports, `{"script", "arguments", "env", "cwd", "files"}` starts a program and
gives its `pid` (`files` are those that become standard input, output and errors), `{"poll": pid}`
gives its exit `code`, or null while it runs. Ends with its input.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import sys
from typing import Any


def load(modules: list[str]) -> dict[str, Any]:
    """Import modules, for all programs that are started later.

    Their objects are frozen: a collection of garbage in a program would touch, and so copy, them all.
    """
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    return {}


def start(**program: Any) -> dict[str, Any]:
    """Fork a program; its process id."""
    pid = os.fork()
    if pid:
        return {"pid": pid}
    code: Any = 1
    try:
        become(**program)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)


def become(
    script: str, arguments: list[str], env: dict[str, str], cwd: str, files: list[str]
) -> None:
    """Be the program: what the fork brought along is replaced by what it is to have."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.dup2(os.open(files[0], os.O_RDONLY), 0)
    for number, path in enumerate(files[1:], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666), number)
    os.closerange(3, 64)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def poll(pid: int) -> dict[str, Any]:
    """The exit code of a program as `subprocess` gives it; None while it runs."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return {"code": os.waitstatus_to_exitcode(status) if done else None}


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "load" in request:
            answer = load(request["load"])
        elif "poll" in request:
            answer = poll(request["poll"])
        else:
            answer = start(**request)
        os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
