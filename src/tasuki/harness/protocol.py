"""The Harness seam: everything tasuki must know about one coding-agent program."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from tasuki.harness.integration import Addition, HarnessIntegration
from tasuki.harness.questions import AskedQuestion, ScreenQuestion
from tasuki.model import Handoff, Thread, ThreadHead
from tasuki.patterns import compile_pattern


class ThreadFile(Struct, frozen=True, gc=False):
    """A thread that exists on disk; nothing of it has been read yet.

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
    """How to start a successor. A terminal carries it out; the plan itself does nothing.

    `paste` goes into the program's input once the screen matches `ready` (a regular expression,
    multi-line), and stays there unsent. `note` is a sentence for the user: what to expect, or what
    the harness cannot do.
    """

    argv: tuple[str, ...]
    cwd: str
    unset: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: tuple[PlannedFile, ...] = ()
    paste: str = ""
    ready: str = ""
    thread_path: str = ""
    thread_id: str = ""
    note: str = ""


class AskRequest(Struct, frozen=True):
    """A question to the agent that knows a thread; the thread itself must not be changed.

    `schema` is a JSON Schema of the answer as text, empty where the answer is Markdown.
    `scratch` is an empty folder that is removed once the answer was read.
    """

    thread: Thread
    question: str
    scratch: str
    schema: str = ""


class AskPlan(Struct, frozen=True):
    """How to ask the question without a screen. `authors/asking.py` carries it out.

    `copies` (source, target) and `links` (existing, link) are made first, then `files`; all of
    them are in the scratch folder. `stdin` is the standard input, empty for none. The question
    belongs there, because every user of the machine can see arguments.
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
    `remove` is a command that deletes what the question left in the program's own store, empty
    if it left nothing; it runs in the same way as the question. `note` is a sentence for the
    user: what could not be deleted.
    """

    text: str = ""
    model: str = ""
    input_tokens: int = 0
    """Tokens that were read, from the program's cache or not."""
    output_tokens: int = 0
    price: float | None = None
    """US dollars, where the program reports the price."""
    aborted: bool = False
    error: str = ""
    remove: tuple[str, ...] = ()
    note: str = ""


class CallerIdentity(Struct, frozen=True):
    """How a harness identifies itself to programs that it starts; all empty where it does not.

    `client` is the name by which it introduces itself to MCP servers. The id or path of its
    thread is in the environment variable `variable`, or under the keys `meta` in the metadata
    of a tool call.
    """

    client: str = ""
    variable: str = ""
    meta: tuple[str, ...] = ()


class AcpCommand(Struct, frozen=True):
    """How a harness is started as an agent that speaks the Agent Client Protocol."""

    command: tuple[str, ...]
    package: str
    """The npm package that installs it."""
    place: int
    """Its place among those that are offered, from 0."""
    other_programs: tuple[str, ...] = ()
    """Older programs that speak for the same harness."""


class HarnessFacts(Struct, frozen=True):
    """What is known of a program beside its threads; an adapter may have none of it."""

    package: str = ""
    """The npm package that installs it."""
    tested: str = ""
    """The version that the tests of this release used."""
    process_names: tuple[str, ...] = ()
    """Names of programs and packages by which it is recognized in a command line."""
    child_variables: tuple[str, ...] = ()
    """Variables that it sets for its children: a successor that inherits them keeps no thread."""
    acp: AcpCommand | None = None
    pane_lies: bool = False
    """Its hooks may report the pane of another agent."""
    restarts_in_place: bool = False
    """It calls a new session in the same program a `startup`."""
    shows_edits_as_text: bool = False
    """Some of its threads hold edits as diffs in messages, and not as calls."""


class RunningProgram(Struct, frozen=True):
    """A running program that says itself which thread it has open."""

    pid: int
    began: str = ""
    """When its process began, in clock ticks since boot."""
    state: str = ""
    tmux: str = ""


EventKind = Literal[
    "started",
    "prompt",
    "busy",
    "idle",
    "waiting",
    "compacting",
    "compacted",
    "child_started",
    "child_ended",
    "context",
    "ended",
]


class AgentEvent(Struct, frozen=True):
    """What a hook of an agent reports, in tasuki's terms.

    started: a session began in the program. prompt: the user's words were submitted. busy: it
    works (a tool was called). idle: a turn of the agent itself ended. waiting: it asks the
    user. compacting, compacted: around a compaction. child_started, child_ended: a sub-agent.
    context: only how full the context is. ended: the program, or its session, ends.
    """

    kind: EventKind
    session: str
    """Id of the thread, as the harness has it."""
    path: str = ""
    """The thread's file; empty where the payload does not name it."""
    cwd: str = ""
    model: str = ""
    permission: str = ""
    """Permission mode, in the form that `AgentRequest.permission` takes."""
    text: str = ""
    """prompt: the words. idle: the agent's last words. waiting: what for. ended: why."""
    question: AskedQuestion | None = None
    """waiting: the very question; None where the program tells only that it has one."""
    turn: str = ""
    """Id of the turn, where the harness has one: the same at its start and at its end."""
    source: str = ""
    """started: startup, resume, clear, compact, fork. compacting, compacted: manual, auto."""
    previous: str = ""
    """started: id or path of the session that the same process was in before."""
    child: str = ""
    """child_started, child_ended: which sub-agent. waiting: the one that asks, if it is one."""
    running: tuple[str, ...] | None = None
    """idle: background work that goes on, a line each; None where it is unknown."""
    interrupted: bool = False
    """idle: the user broke the turn off."""
    error: str = ""
    """idle: the error of the model's provider with which the turn ended, in the harness's words."""
    error_code: str = ""
    """idle: the harness's name for that error, where it gives one."""
    used: float | None = None
    """Context use in percent of the window."""
    tokens: int | None = None
    """Context use in tokens."""
    window: int | None = None
    """The context window in tokens."""
    spent_input: int | None = None
    """Tokens that went to the model since the session began, where the harness counts them."""
    spent_output: int | None = None
    """Tokens that came from it."""
    spent_cost: float | None = None
    """What that has cost, in US dollars, as the harness reckons."""


class HookReply(Struct, frozen=True):
    """Reply of tasuki to an agent's hook: text for the model at a session start, or a veto."""

    context: str = ""
    veto: str = ""
    """Why a compaction must not happen now, as a sentence; empty where it may happen."""


class AgentRequest(Struct, frozen=True):
    """An agent to be started. `prompt` is submitted first; empty for none.

    `session` is an id that the new thread shall have, where the harness allows a choice.
    `writable` are folders, outside of `cwd`, that it may write to without asking.
    """

    cwd: str
    session: str
    prompt: str = ""
    model: str = ""
    permission: str = ""
    writable: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


class Screenshot(Struct, frozen=True):
    """A snapshot of a pane: its screen as plain text, title, process, and the session in it.

    `solid` is the screen with blanks for what is dim: hints of the program. Empty where that is not
    known.
    """

    text: str
    title: str = ""
    pid: int = 0
    session: str = ""
    solid: str = ""


class ScreenState(Struct, frozen=True):
    """What a screenshot shows.

    unknown: neither the program's own signal nor the screen shows the state.
    """

    state: Literal["ready", "busy", "waiting", "unknown"]
    typed: str | None = None
    """The unsent text in the input, empty for an empty one; None where no input for a prompt is shown."""
    is_whole: bool = True
    """Nothing of the input is out of sight."""
    has_stash: bool = False
    """Other unsent text is set aside, by `stash_keys`."""
    asks_about_paste: bool = False
    """It asks what becomes of a long paste; Escape puts it into the input."""


class ScreenField(Struct, frozen=True):
    """A field of a dialog for words of one's own; `key` is that of its choice, empty without choices."""

    key: str
    typed: str
    is_whole: bool = True


class AgentControl(Protocol):
    """One harness whose agents can be run in a fleet, with what holds for most."""

    exit_text: str = "/exit"
    """The text to type to end the program."""
    clear_keys: tuple[str, ...] = ("C-k", "DC", "C-u", "BSpace")
    """Keys, in tmux's names, that delete unsent input, pressed once for each of its rows.

    They do so wherever the cursor is, where there are no `stash_keys`. None can end the program.
    """
    stash_keys: tuple[str, ...] = ()
    """Keys that set unsent input aside, until the program itself puts it back after a prompt."""
    pasted: re.Pattern[str] = compile_pattern(r"(?!)")
    """What the input shows in place of a long paste.

    Its groups count the text's `lines`, their `ends` or its `chars`.
    """
    code_signs: str = "!"
    """First characters of a typed text that the program runs as code."""
    blank_shields: bool = True
    """A blank before such a character makes it plain text."""
    enter_gap: float = 0.5
    """Seconds to wait between a paste and Enter."""
    chooses_session: bool = False
    """`AgentRequest.session` becomes the id of the thread."""
    skill_at_start: bool = False
    """The answer to its session start reaches the model; else the skill is its first prompt."""
    starts_at_prompt: bool = False
    """Its session start fires with the first prompt, not with the program."""
    queues_prompts: bool = False
    """A prompt that is submitted while a turn runs begins its own turn after it.

    Otherwise it joins the running turn.
    """
    can_veto: bool = False
    """An automatic compaction can be vetoed without harm."""
    notes: tuple[str, ...] = ()
    """What the user has to do after `tasuki install --fleet`, as sentences."""

    @property
    def own_keys(self) -> str:
        """Why its keys may do something else: the user's own bindings. Empty where there are none."""
        return ""

    def list_additions(self, hook: str) -> tuple[Addition, ...]:
        """List what `tasuki install --fleet` adds, each with the fleet's mark.

        `hook` is the path of tasuki's hook script: called with the harness's name and the payload
        on standard input, it prints the answer. It ends within about a second, always with 0.
        """
        ...

    def parse_event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        """Parse a payload into an event; None if nothing in it matters.

        The payload may be anything.
        """
        ...

    def format_reply(self, event: AgentEvent, reply: HookReply) -> str:
        """Format what the hook prints; empty for nothing."""
        return ""

    def plan_start(self, request: AgentRequest) -> LaunchPlan:
        """Plan how to start an agent; the plan's `ready` says when a text can be pasted."""
        ...

    def read_screen(self, screenshot: Screenshot) -> ScreenState:
        """Read what the program does now.

        It is known by the program's own signal where it has one, else by its screen.
        """
        ...

    def read_field(self, screenshot: Screenshot) -> ScreenField | None:
        """Read the field of a dialog into which words would be typed; None where there is none."""
        ...

    def read_question(self, screenshot: Screenshot) -> ScreenQuestion | None:
        """Read the question that the screen of a waiting program shows.

        None where there is none, or where its dialogs are not known. A choice without keys that
        were tried with the real program is left out.
        """
        return None


class Harness(Protocol):
    """One coding-agent program: finds and reads its threads, plans how to start a successor.

    Adapters read and never write, lock or delete. `read` raises ThreadUnreadable for a file
    that is empty or holds no thread; single bad lines go into `Thread.report`.
    `tasuki_testing.check_harness` checks every contract.
    """

    name: str
    """Short name used in commands and files: `claude`."""
    title: str
    """Name for people: `Claude Code`."""
    program: str
    """The program to run: `claude`."""
    can_start: bool
    """A successor can be started in it. Otherwise its threads can only be read."""
    can_prefill: bool
    """A first prompt can be placed in the input, unsent, in any terminal."""
    can_ask: bool
    """The agent of a thread can be asked without changing the thread."""

    caller: CallerIdentity
    """How it identifies itself to programs that it starts."""

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        """Yield thread files on this machine, in no order; only those of `cwd` if it is given.

        Where only the head of a file names the folder, files of other folders may be included:
        the caller compares the `cwd` of the head.
        """
        ...

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        """Tell from its first 8 KiB whether a file is, or holds, a thread of this harness."""
        ...

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        """Read what a list shows from both ends of the file; None without a conversation."""
        ...

    def read(self, path: Path) -> Thread:
        """Read the whole thread."""
        ...

    def format_skill_command(self, skill: str) -> str:
        """Return how a skill is invoked at the start of a prompt.

        It is empty if the harness has no such way.
        """
        ...

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        """List the folders in which the harness looks for skills, for one working directory."""
        ...

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Plan how to start a successor with a brief; UsageError if `can_start` is false."""
        ...

    def ask(self, request: AskRequest) -> AskPlan:
        """Plan how to ask the agent of a thread.

        Raises UsageError if `can_ask` is false, or if this thread's agent cannot be asked.

        The plan forks the thread or works on a copy, gives the agent no way to change anything,
        and runs none of the user's hooks.
        """
        ...

    def parse_answer(self, output: str, request: AskRequest) -> AskAnswer:
        """Parse the agent's answer from everything the program wrote to standard output.

        The scratch folder still holds what the program left there. The output may be cut off or be
        anything else: what cannot be parsed is no answer. UsageError if `can_ask` is false.
        """
        ...

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        """Return the command that resumes a thread, empty if there is none."""
        ...

    def get_integration(self) -> HarnessIntegration | None:
        """Return what `tasuki install` adds to it and how its hooks speak.

        It is None where there is nothing to add.
        """
        ...

    def get_control(self) -> AgentControl | None:
        """Return how its agents are run in a fleet; None where they cannot be."""
        ...
