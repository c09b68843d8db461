"""The Harness seam: everything tasuki must know about one coding-agent program."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from tasuki.model import Handoff, Thread, ThreadHead


class ThreadFile(Struct, frozen=True, gc=False):
    """A thread that exists on disk; nothing of it has been read.

    A thread in a database is named as if it were a file below it: `opencode.db/ses_1`.
    """

    path: Path
    modified: float
    bytes: int


class PlannedFile(Struct, frozen=True):
    """A file that must be written before the successor starts; the path must not exist yet."""

    path: str
    content: str
    mode: int = 0o600


class LaunchRequest(Struct, frozen=True):
    """What the user wants of the successor.

    `brief` is the whole first prompt, goal included. `context` is the brief without the goal
    section, for harnesses that keep the past and the goal apart.
    """

    handoff: Handoff
    brief: str
    context: str
    cwd: str
    send: bool = False
    model: str = ""
    arguments: tuple[str, ...] = ()


class LaunchPlan(Struct, frozen=True):
    """How to start a successor. A terminal carries it out; a plan itself does nothing.

    `paste` goes into the program's input once the screen matches `ready` (a regular expression,
    multi-line); it is submitted only with `submit`. `note` is a sentence for the user: what to
    expect, or what the harness cannot do.
    """

    argv: tuple[str, ...]
    cwd: str
    unset: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: tuple[PlannedFile, ...] = ()
    paste: str = ""
    submit: bool = False
    ready: str = ""
    thread_path: str = ""
    thread_id: str = ""
    note: str = ""


class Caller(Struct, frozen=True):
    """How a harness shows itself to programs that it starts, all empty where it does not.

    `client` is the name by which it introduces itself to MCP servers. The id or path of its thread
    stands in the environment variable `variable`, or under the keys `meta` in the metadata of a
    tool call.
    """

    client: str = ""
    variable: str = ""
    meta: tuple[str, ...] = ()


class Harness(Protocol):
    """One coding-agent program: finds and reads its threads, says how to start a successor.

    Adapters read and never write, lock or delete. `read` raises ThreadUnreadable for a file
    that is empty or holds no thread; single bad lines go into `Thread.report`.
    `tasuki.testing.check_harness` holds every contract.
    """

    name: str
    """Short name used in commands and files: `claude`."""
    title: str
    """Name for people: `Claude Code`."""
    program: str
    """The program to run: `claude`."""
    can_start: bool
    """A successor can be started in it; else its threads can only be read."""
    can_prefill: bool
    """A first prompt can stand in the input, unsent, in any terminal."""

    caller: Caller
    """How it shows itself to programs that it starts."""

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        """Thread files on this machine, in no order; those of `cwd` alone if it is given.

        Where only the head of a file tells the folder, files of other folders may be included:
        the caller compares `head().cwd`.
        """
        ...

    def recognises(self, path: Path, first: bytes) -> bool:
        """Whether a file is, or holds, a thread of this harness, from its first 8 KiB."""
        ...

    def head(self, file: ThreadFile) -> ThreadHead | None:
        """What a list shows, from both ends of the file; None if it holds no conversation."""
        ...

    def read(self, path: Path) -> Thread:
        """The whole thread."""
        ...

    def skill_command(self, skill: str) -> str:
        """How a skill is invoked at the start of a prompt, empty if the harness has no such way."""
        ...

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        """Folders in which the harness looks for skills, for one working directory."""
        ...

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """How to start a successor with a brief; UsageError if `can_start` is false."""
        ...

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        """The command that goes back to a thread, empty if there is none."""
        ...
