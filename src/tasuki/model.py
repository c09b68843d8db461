"""The data that all other modules exchange: frozen, without I/O.

A `Thread` is read from disk, `Facts` are derived from it, a `Draft` is chosen for a `Goal`,
and a `Handoff` is the draft that was stored. Times are ISO 8601 strings as the harness
recorded them, sizes are characters unless a name says bytes, and tokens are estimated.
"""

from typing import Literal

from msgspec import Struct

Origin = Literal["typed", "queued", "channel", "answer", "harness", "command", "handoff", "plan"]
"""The source of a user entry.

typed: at the prompt; queued: typed while the agent worked; channel: sent by the user from a chat;
answer: to a question or a refused tool call; harness: written by a program or another agent;
command: a shell command the user ran in the harness; handoff: the brief of an earlier handoff;
plan: one of the agent, which the user approved.
"""
PROMPTS = ("typed", "queued", "channel")
"""Origins of what the user asked for in their own words."""
BY_HAND = (*PROMPTS, "answer")
"""Origins of what the user wrote with their own hands."""

EntryKind = Literal["user", "assistant", "tool", "compaction", "document"]
ToolKind = Literal[
    "shell", "edit", "write", "read", "search", "todo", "plan", "agent", "background", "ask", "skill",
    "web", "mcp", "other",
]  # fmt: skip
"""What a tool does. background: it polls, feeds or ends what runs beside the conversation."""
ToolStatus = Literal["ok", "error", "running", "aborted", "refused", "unknown"]
"""How a tool call ended.

refused: the user did not want it. error: it ended badly, or never began: of a shell command only an exit
code proves that it ran.
"""
RunResult = Literal["passed", "failed", "did not run", "not shown"]
Suite = Literal["", "whole", "part", "selection", "unknown"]
"""How a command ended, as far as the thread proves it."""
TodoStatus = Literal["pending", "in_progress", "done", "dropped"]
ChangeKind = Literal["edit", "create", "delete", "rename"]


class FileChange(Struct, frozen=True, gc=False):
    """One file changed by one tool call; `old` and `new` are the replaced and the new text."""

    path: str
    kind: ChangeKind
    old: str = ""
    new: str = ""


class Todo(Struct, frozen=True, gc=False):
    """One item of a todo list or plan, in the agent's own words."""

    text: str
    status: TodoStatus


class ToolCall(Struct, frozen=True, gc=False):
    """A tool call with its result.

    `output` is cut in the middle when it is long; `output_size` is its full length.
    `detail` is the purpose of the call besides command and paths: a pattern, a URL, a question.
    """

    id: str
    name: str
    kind: ToolKind
    command: str = ""
    detail: str = ""
    paths: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    todos: tuple[Todo, ...] | None = None
    output: str = ""
    output_size: int = 0
    status: ToolStatus = "unknown"
    exit_code: int | None = None
    background: str = ""
    """Id of the background command or sub-agent that the call started, if it did."""
    workdir: str = ""

    @property
    def was_done(self) -> bool:
        """Whether it has a result of its own: neither refused, nor stopped, nor without any yet."""
        return self.status not in ("refused", "aborted", "running")


class Entry(Struct, frozen=True, gc=False):
    """One thing in a thread. `ref` is the n of `#n`.

    It counts user messages, assistant texts, tool calls and compactions in file order, so
    appending never changes numbers.
    """

    ref: int
    kind: EntryKind
    text: str = ""
    at: str = ""
    id: str = ""
    origin: Origin = "typed"
    tool: ToolCall | None = None
    compacted: bool = False
    """It is before the last compaction: the agent itself no longer had it in view."""
    kept_from: int = 0
    """Only for a compaction: the first ref that the harness kept in view, 0 if none."""
    source: int = 0
    """Index into `Thread.sources`: the file that holds the entry."""
    offset: int = 0
    """Byte offset in that file of the line that begins the entry."""

    @property
    def is_prompt(self) -> bool:
        """Whether the user asked for something here, in their own words."""
        return self.kind == "user" and self.origin in PROMPTS

    @property
    def is_by_hand(self) -> bool:
        """Whether the user wrote it with their own hands: a prompt, or an answer."""
        return self.kind == "user" and self.origin in BY_HAND


class Notice(Struct, frozen=True, gc=False):
    """Something the harness recorded that is no entry: an interruption, an API error, a hook."""

    after: int
    kind: Literal["interrupted", "error", "context", "note"]
    text: str = ""


FailureKind = Literal["limit", "context", "login", "other"]
"""limit: the account used up what its plan or budget allows. context: the conversation is too long
for the model. login: the account is not let in. other: the network, the provider, a refusal."""


class TurnFailure(Struct, frozen=True, gc=False):
    """The error with which a turn ended, as its harness recorded it."""

    kind: FailureKind
    text: str
    """The harness's own sentence, in one line."""
    resets_at: float | None = None
    """When a limit ends, in seconds since 1970; None where that is not known."""


class Document(Struct, frozen=True, gc=False):
    """A guide, a memory or a file that a program put into a thread, whole: nobody said it there."""

    path: str
    text: str


FIRST_DOCUMENT = 900_000_001
"""Ref of the first document of a thread, `#d1`: above those of all entries."""


def format_ref(ref: int) -> str:
    """Format what an entry or a document is named by: `#12`, `#d1`."""
    return f"#d{ref - FIRST_DOCUMENT + 1}" if ref >= FIRST_DOCUMENT else f"#{ref}"


class Background(Struct, frozen=True, gc=False):
    """A sub-agent or background command: what it is, and whether its end was seen."""

    id: str
    kind: Literal["agent", "command"]
    label: str
    state: Literal["running", "done", "failed", "unknown"]
    ref: int
    places: tuple[str, ...] = ()
    """Addresses, ports and log files that were printed when it started."""


class Sidechain(Struct, frozen=True, gc=False):
    """A sub-agent's own record, kept apart from the thread."""

    id: str
    path: str
    label: str = ""


class BrokenLine(Struct, frozen=True, gc=False):
    """A line that could not be read, by its 1-based number in its file."""

    line: int
    reason: str
    path: str = ""


class ReadReport(Struct, frozen=True):
    """What the reader met and did not accept: nothing is dropped silently."""

    lines: int = 0
    bytes: int = 0
    unknown: dict[str, int] = {}
    broken: tuple[BrokenLine, ...] = ()
    truncated_tail: bool = False
    notes: tuple[str, ...] = ()
    lacks_beginning: bool = False
    """The thread goes on from one that is not in its files: what is not in it may be in that."""
    lacks_end: str = ""
    """A sentence that says where newer parts of it are, which cannot be read."""


HANDOFF_SKILLS = frozenset(("handoff", "handing-off", "tasuki"))
"""Skills that hand off: a successor that inherited one would hand off at once."""


class Thread(Struct, frozen=True):
    """One conversation as a harness recorded it. It is only ever read."""

    harness: str
    id: str
    path: str
    cwd: str = ""
    git_branch: str = ""
    git_head: str = ""
    model: str = ""
    thinking: str = ""
    version: str = ""
    tools: tuple[str, ...] = ()
    name: str = ""
    parent: str = ""
    """Id or path of the thread this one was forked or handed off from."""
    started: str = ""
    updated: str = ""
    context_tokens: int | None = None
    context_window: int | None = None
    entries: tuple[Entry, ...] = ()
    keeps_from: int = 0
    """While it is compacted: the first ref that will stay in view; 0 for none, or unknown."""
    keeps_words: int = 0
    """Characters up to which the harness keeps all messages of the user over a compaction."""
    notices: tuple[Notice, ...] = ()
    background: tuple[Background, ...] = ()
    sidechains: tuple[Sidechain, ...] = ()
    artifacts: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    """Skills used, in order, by name."""
    aborted: bool = False
    """The last turn was interrupted by the user."""
    abandoned: int = 0
    """Entries on branches that the user left; they keep their refs but are not in `entries`."""
    sources: tuple[str, ...] = ()
    report: ReadReport = ReadReport()
    failure: TurnFailure | None = None
    """The error with which the thread ends: no answer and no tool call came after it."""
    documents: tuple[Document, ...] = ()

    @property
    def limit(self) -> TurnFailure | None:
        """The usage limit with which the thread ends; None for none, and for any other error."""
        return self.failure if self.failure and self.failure.kind == "limit" else None

    @property
    def readable(self) -> tuple[Entry, ...]:
        """The entries, and after them the documents in the same form."""
        documents = (
            Entry(ref, "document", f"{d.path}\n{d.text}", origin="harness")
            for ref, d in enumerate(self.documents, FIRST_DOCUMENT)
        )
        return (*self.entries, *documents)

    @property
    def last_skill(self) -> str:
        """The skill that was used last and is handed on, empty if there is none."""
        used = (name for name in reversed(self.skills) if name not in HANDOFF_SKILLS)
        return next(used, "")


class ThreadHead(Struct, frozen=True, gc=False):
    """What a list of threads shows, from both ends of the file."""

    harness: str
    id: str
    path: str
    cwd: str = ""
    name: str = ""
    first_words: str = ""
    modified: float = 0.0
    """Seconds since the epoch: of the last line that has a time, else of the file."""
    bytes: int = 0
    messages: int | None = None
    """What the user and the agent said; None where it was not counted."""
    context_tokens: int | None = None
    context_window: int | None = None
    of_project: bool = False
    """It is in its project's folder.

    It is listed for all folders below `cwd`, not for that one alone.
    """
    folders: tuple[str, ...] = ()
    """Other folders in which it went on."""
    kept: bool = False
    """Its file is gone; tasuki reads the copy that it kept."""
    is_child: bool = False
    """A program began it: a sub-agent, or one that judges. It is found by its id, and listed under its parent."""
    parent: str = ""
    """Id of the thread that began it, where the file names that."""
    children: tuple[str, ...] = ()
    """Ids of the threads that it began, where lists know them."""


class Goal(Struct, frozen=True):
    """Exactly what the user wants next; empty where a session was handed off without a goal."""

    text: str
    forced: bool = False
    """The goal rules would have refused it, and the user insisted."""
    said_by: Literal["user", "model"] = "user"

    @property
    def shown(self) -> str:
        """The goal for lists."""
        return self.text or "(no goal given)"


class Named(Struct, frozen=True):
    """Refs of the newest entries that name a file, oldest first, by the place of the name."""

    assistant: tuple[int, ...] = ()
    user: tuple[int, ...] = ()
    input: tuple[int, ...] = ()
    """In what a tool was given."""
    output: tuple[int, ...] = ()
    """In what a tool printed."""


class FileFact(Struct, frozen=True):
    """What a thread did to one file. `path` is relative to the thread's cwd if it is below that."""

    path: str
    reads: tuple[int, ...] = ()
    edits: tuple[int, ...] = ()
    created: bool = False
    deleted: bool = False
    was_there: bool | None = None
    """Whether it was there before the thread touched it; None where nobody knows, or whether git knew it."""
    undone: int = 0
    """Ref of the newest command that restored the file to git's version, 0 if none did."""
    mentioned: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()
    """Names of functions, classes and tests inside the thread's edits of it, newest first."""
    named: Named = Named()

    @property
    def is_scrap(self) -> bool:
        """Whether it is gone, and is not known to have been there before."""
        return self.deleted and not self.was_there

    @property
    def last(self) -> int:
        """The newest entry that touched it."""
        return max((*self.reads[-1:], *self.edits[-1:], *self.mentioned[-1:]), default=0)

    @property
    def shown_in(self) -> tuple[int, ...]:
        """The entries that a brief cites for it: the last reads and edits, else the naming ones."""
        touched = (*self.reads[-2:], *self.edits[-3:])
        return touched or (*self.named.output[-1:], *self.named.assistant[-1:])


class CommandFact(Struct, frozen=True):
    """One command the thread ran, exactly as written, with the result of its last run."""

    command: str
    refs: tuple[int, ...]
    result: RunResult = "passed"
    error: str = ""
    """The line that says why it failed or did not run."""
    outcome: str = ""
    """A short line of the output that says how it went, of a check or test."""
    check: Literal["", "test", "lint", "build", "commit"] = ""
    by_user: bool = False
    folder: str = ""
    """Where its last run began, by the call and not by the command, if not in the thread's own folder."""
    without_stashed: bool = False
    """Its last run was without changes that are stashed still."""
    failed_tests: tuple[str, ...] = ()
    """The tests that failed in the last run, of a check of tests."""
    unseen: int = 0
    """Of a last check: ref of a newer run of its kind whose result is not shown, 0 for none."""
    suite: Suite = ""
    """Which tests it runs: all of its folder, some, those selected by names, or nobody knows whether any; empty for none."""
    changed_by: str | None = ""
    """Of a last check, or a run of the whole suite: the last command since that changes files; None where nobody knows whether one did."""

    @property
    def ok(self) -> bool:
        """Whether its last run is proven to have passed."""
        return self.result == "passed"

    @property
    def known(self) -> bool:
        """Whether the thread proves how its last run ended."""
        return self.result in ("passed", "failed")


class Quote(Struct, frozen=True):
    """A sentence exactly as in one entry."""

    text: str
    ref: int


class Lesson(Struct, frozen=True):
    """A command that failed, what changed, and whether it passed afterwards."""

    command: str
    error: str
    failed: int
    folder: str = ""
    """As of `CommandFact`."""
    started: bool = True
    """False where its program or its target was missing."""
    passed: int = 0
    """Ref of the later success of the same command, 0 if it never came."""
    words: str = ""
    """The assistant's sentence between the failure and the success."""
    words_ref: int = 0


class Revision(Struct, frozen=True):
    """Git as the thread recorded it, and as it is now where the folder exists."""

    branch: str = ""
    head: str = ""
    commits: tuple[Quote, ...] = ()
    """Commits the thread made: hash and subject."""
    branch_now: str = ""
    head_now: str = ""
    dirty_now: tuple[str, ...] = ()
    """Changed and untracked files now, relative to `root`."""
    staged_now: tuple[str, ...] = ()
    root: str = ""
    """The folder of the repository."""
    ahead: int | None = None
    """Commits of the branch that its upstream lacks; None without an upstream."""
    history: tuple[str, ...] = ()
    """Hashes of the newest commits of the branch, the newest first."""
    is_merging: bool = False
    """A merge, a rebase or the like is under way now."""
    repository: bool = False


PullRequestState = Literal["", "open", "draft", "merged", "closed"]


class Commit(Struct, frozen=True, gc=False):
    """A commit that the thread made. `hash` is empty where git was told not to print it."""

    hash: str
    subject: str
    branch: str
    ref: int
    pushed: bool | None = None
    """Whether a push of its branch was seen afterwards; None where its history was rewritten."""
    gone: bool = False
    """Amended, rebased or reset away, and not seen again."""
    place: str = ""
    """The checkout, if it is of another repository than the thread's folder."""


class PullRequest(Struct, frozen=True, gc=False):
    """A pull request that a program printed, in the state it was last seen in."""

    number: int
    state: PullRequestState
    ref: int
    created: bool = False
    branch: str = ""
    handled: bool = False
    """The thread merged, closed, edited or reviewed it."""
    repository: str = ""
    """`owner/name`, where a program printed it or was told it."""
    looked_at: bool = False
    """The thread asked for this one alone."""


class CheckSummary(Struct, frozen=True, gc=False):
    """Checks of a service as they were last seen: how many passed, which failed, how many still run."""

    name: str
    passed: int
    failed: tuple[str, ...]
    pending: int
    ref: int


class CheckoutState(Struct, frozen=True, gc=False):
    """One checkout of a repository: its folder, and what was committed in it."""

    root: str
    clean_ref: int = 0
    """The newest entry in which git called the tree clean, 0 if none did."""
    settled: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """For each entry that committed, or may have: what was added for it; `()` where that may be everything."""
    by_others: tuple[int, ...] = ()
    """Those of these entries that only may have committed."""
    listed: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """For each entry that shows them: files, and folders of new ones, that are not committed."""
    complete: tuple[int, ...] = ()
    """Those of these entries that show all such files."""
    merging_ref: int = 0
    """Entry since which a merge or rebase with conflicts is under way in it, 0 for none."""
    branches: tuple[tuple[int, str, bool], ...] = ()
    """For each entry from which on another branch is in use: its name, and whether it began as the one before."""


class RepositoryState(Struct, frozen=True):
    """What a thread shows of its repositories. Refs are those of the entries that show it."""

    branch: str = ""
    """That of the checkout in which the thread worked last."""
    branch_ref: int = 0
    folder: str = ""
    """That checkout, if it is another one than the thread's own."""
    commits: tuple[Commit, ...] = ()
    pull_requests: tuple[PullRequest, ...] = ()
    checks: CheckSummary | None = None
    published: tuple[Quote, ...] = ()
    merging_ref: int = 0
    """Entry since which a merge or rebase with conflicts is under way in the checkout in use, 0 for none."""
    maybe_ref: int = 0
    """The newest entry after which somebody else may have committed, 0 for none."""
    checkouts: tuple[CheckoutState, ...] = ()


class Facts(Struct, frozen=True):
    """What can be derived from a thread without a model; every item with its refs."""

    files: tuple[FileFact, ...] = ()
    spoken_of: tuple[FileFact, ...] = ()
    """Files that the newest entries name and that no tool touched."""
    commands: tuple[CommandFact, ...] = ()
    last_check: tuple[CommandFact, ...] = ()
    """The last run of each kind of check."""
    unverified: tuple[str, ...] = ()
    """Files edited after the last check that passed."""
    uncommitted: tuple[str, ...] = ()
    """Files edited after the last commit of the thread."""
    maybe_committed: tuple[str, ...] = ()
    """Edited files of which the thread does not tell whether a commit holds them."""
    todos: tuple[Todo, ...] = ()
    todos_ref: int = 0
    lessons: tuple[Lesson, ...] = ()
    running: tuple[Background, ...] = ()
    previous: tuple[Quote, ...] = ()
    """Items of earlier handoffs found in the thread, folded."""
    revision: Revision = Revision()
    repository: RepositoryState = RepositoryState()
    subjects: tuple[Quote, ...] = ()
    """The subjects of the thread's commits, also where git's answer is not recorded."""
    skill: str = ""


class Item(Struct, frozen=True):
    """One point of a draft with the entries that support it.

    `label` is Not committed yet, Tests, … A text of several lines is quoted as a block:
    paragraphs, lists and code of one message.
    """

    text: str
    refs: tuple[int, ...] = ()
    label: str = ""


class FileItem(Struct, frozen=True):
    """A file the successor should know, and why."""

    path: str
    reason: str = ""
    refs: tuple[int, ...] = ()
    verified: bool = True
    minor: bool = False
    """Named with the others; its content is described only where room is left."""


class CommandItem(Struct, frozen=True):
    """A command the successor may need, and its result."""

    command: str
    note: str = ""
    refs: tuple[int, ...] = ()
    minor: bool = False
    """Only named on the line of the others; the cap of commands does not count it."""


DOCUMENT = "document"
"""Section of what was marked in a document, whose words are not changed."""


class Dropped(Struct, frozen=True):
    """Something a check removed from a draft, and why; for a `document`, what it marked in it."""

    section: str
    text: str
    reason: str
    kind: str = ""
    """Of the reason: path, command, quote, value, user, uncited, unsupported, refuted, finished,
    repeated, empty, cap, room."""
    refs: tuple[int, ...] = ()
    """The entries that it cited."""

    @property
    def way(self) -> str:
        """What happened to it: `dropped from context`; a document keeps all its words."""
        return (
            "marked in the document" if self.section == DOCUMENT else f"dropped from {self.section}"
        )


class Authorship(Struct, frozen=True):
    """Who wrote a draft, what it cost, and how much of it failed the checks."""

    author: str = "offline"
    model: str = ""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    price: float | None = None
    """US dollars, where known."""
    whole_from: int = 1
    """First ref that the author received whole. Older entries were given as facts and excerpts."""
    proposed: dict[str, int] = {}
    """Items that the author wrote, by section."""
    dropped: dict[str, int] = {}
    """Items that the checks removed, by kind of reason."""
    filled: int = 0
    """Items that were added from facts, because the author had left them out."""
    fell: tuple[str, ...] = ()
    """Why authors that should have written it did not, one sentence each."""


class Draft(Struct, frozen=True):
    """The structured document before the user accepted it."""

    goal: Goal
    authorship: Authorship = Authorship()
    stopped: tuple[Item, ...] = ()
    """Where the thread stopped: the last message of either side, and the last that concludes."""
    context: tuple[Item, ...] = ()
    state: tuple[Item, ...] = ()
    asked: tuple[Item, ...] = ()
    rules: tuple[Item, ...] = ()
    """Lines of guides that bind: an item of several lines for each guide."""
    about: tuple[Item, ...] = ()
    """Passages that the goal speaks of."""
    decisions: tuple[Item, ...] = ()
    questions: tuple[Item, ...] = ()
    files: tuple[FileItem, ...] = ()
    commands: tuple[CommandItem, ...] = ()
    steps: tuple[Item, ...] = ()
    """The last commands and edits, in order."""
    printed: tuple[Item, ...] = ()
    """What the last calls read and printed, where there is room."""
    previous: tuple[Item, ...] = ()
    metadata: tuple[str, ...] = ()
    drift: tuple[Item, ...] = ()
    skill: str = ""
    dropped: tuple[Dropped, ...] = ()
    left_out: tuple[Item, ...] = ()
    """What did not fit the budget, best first; shown in the review."""


class Citation(Struct, frozen=True):
    """A cited entry, stored so that it can be opened after the thread changed or is gone."""

    ref: int
    entry_id: str
    sha256: str
    kind: EntryKind
    text: str


class Predecessor(Struct, frozen=True):
    """The thread a handoff was made from."""

    harness: str
    thread_id: str
    path: str
    cwd: str = ""
    git_branch: str = ""
    git_head: str = ""
    name: str = ""
    entries: int = 0


class Handoff(Struct, frozen=True):
    """A draft that was stored. It never changes: later changes go into its events."""

    id: str
    created: str
    goal: Goal
    predecessor: Predecessor
    draft: Draft
    version: int = 1
    revises: str = ""
    """Id of the handoff that this one is an edited revision of."""
    parent: str = ""
    """Id of the handoff that the predecessor itself began with: the lineage."""
    to: str = ""
    budget: int = 0
    tokens: int = 0
    """Size of the brief without the goal, estimated."""
    citations: tuple[Citation, ...] = ()
    redactions: dict[str, int] = {}
    snapshot: dict[str, str] = {}
    """What drift is checked against when the successor starts: named files and their hashes,
    `HEAD` and `branch`."""


class HandoffEvent(Struct, frozen=True):
    """One thing that happened to a handoff: drafted, started, delivered, acknowledged, drift."""

    at: str
    kind: str
    detail: dict[str, str] = {}
