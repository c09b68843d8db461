"""The Harness seam: everything tasuki must know about one coding-agent program."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from tasuki.harness.integration import Integration
from tasuki.model import Handoff, Thread, ThreadHead

if TYPE_CHECKING:
    from tasuki.harness.control import Control


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


class AskRequest(Struct, frozen=True):
    """A question to the agent that knows a thread; the thread itself is not to be touched.

    `schema` is a JSON Schema of the answer as text, empty where the answer is Markdown. `scratch`
    is an empty folder that is removed once the answer was taken.
    """

    thread: Thread
    question: str
    scratch: str
    schema: str = ""


class AskPlan(Struct, frozen=True):
    """How to put the question, without a screen. `authors/asking.py` carries it out.

    `copies` (source, target) and `links` (existing, link) are made first, then `files`; all lie in
    the scratch folder. `stdin` is the standard input, empty for none: the question belongs there,
    for arguments are seen by every user of the machine.
    """

    argv: tuple[str, ...]
    cwd: str
    stdin: str = ""
    env: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    files: tuple[PlannedFile, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()


class AskAnswer(Struct, frozen=True):
    """What the agent said in the turn that the question began, and what it cost.

    `aborted`: the turn was broken off. `error`: why there is no answer, in the program's words.
    `remove` is a command that takes away what asking left behind, empty if nothing did; it runs
    as the question did. `note` is a sentence for the user: what could not be taken away.
    """

    text: str = ""
    model: str = ""
    input_tokens: int = 0
    """What was read, from the program's cache or not."""
    output_tokens: int = 0
    price: float | None = None
    """US dollars, where the program says so."""
    aborted: bool = False
    error: str = ""
    remove: tuple[str, ...] = ()
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
    can_ask: bool
    """The agent of a thread can be asked without changing the thread."""

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

    def ask(self, request: AskRequest) -> AskPlan:
        """How to ask the agent of a thread; UsageError if `can_ask` is false, or for this thread.

        The plan forks the thread or works on a copy, gives the agent no way to change anything,
        and runs none of the user's hooks.
        """
        ...

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        """What the agent answered, from all that the program wrote to standard output.

        The scratch folder still holds what the program left there. The output may be cut off, or
        be anything else: what is not understood is no answer. UsageError if `can_ask` is false.
        """
        ...

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        """The command that goes back to a thread, empty if there is none."""
        ...

    def integration(self) -> Integration | None:
        """What `tasuki install` adds to it, and how its hooks speak; None where there is nothing."""
        ...

    def control(self) -> "Control | None":
        """How its agents are run in a fleet; None where they cannot be."""
        ...
