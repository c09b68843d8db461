"""What all harnesses have in common that are programs: their parts are found by name."""

import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, cast

from tasuki.harness import protocol
from tasuki.harness.integration import HarnessIntegration
from tasuki.harness.optional import ThreadFollower
from tasuki.harness.plans import plan_with_brief
from tasuki.harness.reading.heads import HeadReader
from tasuki.model import Thread, ThreadHead

FEWEST_BYTES = 3
"""A file of credentials with fewer holds nothing: `{}`."""


class ProgramHarness:
    """A harness in a folder of its own, with `read.py` and `hooks.py`; see `protocol.Harness`.

    A list of threads needs no part of these two, so they are loaded when they are used.
    """

    title: str
    program: str
    head: type[HeadReader]
    prefix: ClassVar[str] = ""
    """Begins the names of its classes: `Codex` for `CodexReader`, `CodexIntegration`, `CodexControl`."""
    reader: ClassVar[str] = "*Reader"
    ready: str
    """Matches the screen once it takes input."""
    facts: ClassVar[protocol.HarnessFacts] = protocol.HarnessFacts()
    skill_mark: str = "/"
    key_variables: tuple[str, ...] = ()
    """Variables with which it is signed in."""
    unset: tuple[str, ...] = ()
    """Variables that it must not inherit."""
    can_start = True
    can_prefill = False
    can_ask = True

    def load(self, module: str, name: str) -> Any:
        """Load a class or function of its folder; in a name, `*` stands for the prefix."""
        folder = type(self).__module__.rpartition(".")[0]
        return getattr(import_module(f"{folder}.{module}"), name.replace("*", self.prefix))

    def list_files(self, cwd: Path | None = None) -> Iterator[protocol.ThreadFile]:
        """Yield all thread files: only their lines name the folders."""
        return self.head.list_files()

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        return self.head.is_thread(path, first)

    def read_head(self, file: protocol.ThreadFile) -> ThreadHead | None:
        return self.head(file).read()

    def read(self, path: Path) -> Thread:
        return self.build_reader(path).read()

    def build_reader(self, *what: object, **how: bool) -> ThreadFollower:
        """Build the reader of a thread, from `read.py`."""
        return cast(ThreadFollower, self.load("read", self.reader)(*what, **how))

    def format_skill_command(self, skill: str) -> str:
        return f"{self.skill_mark}{skill}"

    def build_argument(self, prompt: str) -> tuple[str, ...]:
        """Return the arguments that send a prompt."""
        raise NotImplementedError

    def plan(self, request: protocol.LaunchRequest) -> protocol.LaunchPlan:
        """Plan the brief as an argument where it is to be sent at once, else as an unsent paste."""
        return plan_with_brief(
            self.program, self.title, request, ready=self.ready, argument=self.build_argument
        )

    def list_key_files(self) -> tuple[Iterable[Path], Iterable[Path]]:
        """List the files with which it is signed in, and those with which it may be."""
        return (), ()

    def is_signed_in(self) -> bool | None:
        """Tell whether there are credentials of it on this machine, of which nothing is read.

        None where only a file is there by which it may be signed in in another way, or where a file
        may not be looked at.
        """
        files, unsure = self.list_key_files()
        found = [*map(_has_content, files)]
        if any(os.environ.get(name) for name in self.key_variables) or True in found:
            return True
        return None if None in found or any(map(_has_content, unsure)) else False

    def get_integration(self) -> HarnessIntegration:
        return cast(HarnessIntegration, self.load("hooks", "*Integration")())

    def get_control(self) -> protocol.AgentControl:
        control: protocol.AgentControl = self.load("hooks", "*Control")(
            self.program, self.ready, self.build_argument, self.unset
        )
        return control


def _has_content(path: Path) -> bool | None:
    try:
        return path.stat().st_size >= FEWEST_BYTES
    except PermissionError:
        return None
    except OSError:
        return False
