"""Start a successor in this terminal, and wait until it ends."""

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from tasuki.errors import LaunchFailed
from tasuki.harness.protocol import LaunchPlan
from tasuki.launch.prepare import (
    LaunchResult,
    build_command,
    build_environment,
    write_planned_files,
)
from tasuki.launch.relay import start_relay

LEFT_ON = (
    "\x1b[?25h\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[<u\x1b[0m"
)
"""Switches off what a killed program leaves on: paste marks, mouse, keyboard modes.

It also shows the cursor.
"""


def start_here(plan: LaunchPlan) -> LaunchResult:
    """Run a successor in the foreground of this terminal; return when it has ended.

    A plan with a first text to paste goes through a relay, which types it in once the program
    is ready. Ctrl-C belongs to the program while it runs. The terminal is restored afterwards.
    Raises LaunchFailed where there is no terminal, HarnessMissing where there is no program.
    """
    if not (sys.__stdin__ and sys.__stdout__ and os.isatty(0) and os.isatty(1)):
        raise LaunchFailed(
            f"There is no terminal here for {plan.argv[0]}. Start it in tmux "
            "(--tmux), or print the brief (--print)."
        )
    argv, env = build_command(plan), build_environment(plan)
    if plan.paste:
        with write_planned_files(plan):
            program_relay = start_relay(argv, plan.cwd, env)
        result = program_relay.run(plan.paste, plan.ready, plan.submit)
        return LaunchResult(
            "here", _find_device(), pid=result.pid, filled=result.filled, code=result.code
        )
    with _restore_terminal():
        with write_planned_files(plan):
            program = _spawn(argv, plan.cwd, env)
        with _ForegroundProgram(program) as foreground:
            code = foreground.wait()
    if code > 128:
        print(LEFT_ON, end="", flush=True)
    return LaunchResult("here", _find_device(), pid=program.pid, code=code)


def _spawn(argv: list[str], cwd: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, cwd=cwd, env=env)
    except OSError as error:
        raise LaunchFailed(f"{argv[0]} cannot be run: {error.strerror}.") from error


@contextmanager
def _restore_terminal() -> Iterator[None]:
    """Restore the terminal's settings, however the body ends."""
    before = termios.tcgetattr(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


class _ForegroundProgram:
    """A program that shares this terminal: its keys are its own, its stops are ours too."""

    def __init__(self, program: subprocess.Popen[bytes]) -> None:
        self.program = program
        self.continued = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Ctrl-C and Ctrl-\\ reach the program by the terminal; an order to end is passed on."""
        wanted = {
            signal.SIGINT: self._ignore_signal,  # not SIG_IGN: the program would inherit that
            signal.SIGQUIT: self._ignore_signal,
            signal.SIGTERM: self._pass_on,
            signal.SIGCONT: self._continue,
        }
        self.before = {number: signal.signal(number, act) for number, act in wanted.items()}
        return self

    def __exit__(self, *error: object) -> None:
        for number, old in self.before.items():
            signal.signal(number, old)

    def wait(self) -> int:
        """Return the exit status of the program.

        Where it alone stops itself (Ctrl-Z) tasuki stops too.
        """
        while True:
            self.continued = False
            _, status = os.waitpid(self.program.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            self._stop_with_program()
        code = os.waitstatus_to_exitcode(status)
        self.program.returncode = code
        return 128 - code if code < 0 else code

    def _stop_with_program(self) -> None:
        """Stop, unless the whole group was stopped and has been continued since."""
        if not self.continued:
            os.kill(0, signal.SIGTSTP)  # ignored where no shell could continue us
        os.kill(self.program.pid, signal.SIGCONT)

    def _ignore_signal(self, number: int, frame: FrameType | None) -> None:
        """Leave the signal to the program."""

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.program.send_signal(number)

    def _continue(self, number: int, frame: FrameType | None) -> None:
        self.continued = True


def _find_device() -> str:
    try:
        return os.ttyname(0)
    except OSError:
        return ""
