"""What the readers of all harnesses gather while they read: entries, notices, and the thread."""

from collections.abc import MutableSequence
from typing import Any, Literal

from msgspec.structs import replace

from tasuki.harness.reading.jsonl import ThreadLines, mark_compacted
from tasuki.harness.reading.turn_failures import FailureRecord
from tasuki.harness.tool_table.calls import CallLog
from tasuki.harness.tool_table.tools import ToolInput, build_tool_call
from tasuki.model import Entry, EntryKind, Notice, Origin, Thread, ToolCall

NoticeKind = Literal["interrupted", "error", "context", "note"]
MADE_ANEW = ("handlers", "fast_paths", "find")
"""What each reader builds for itself."""
MOST_NOTICE = 300
"""Characters of a notice that are kept."""


class ThreadReader:
    """One pass over the records of a thread; a harness says what they mean.

    `at`, `id`, `node` and `offset` are those of the record that is read, `source` is the file it is in.
    """

    harness = ""
    is_alone = True
    """Nothing but the thread's sources, and what is missing, decides what it reads."""
    lacking: tuple[str, ...] = ()
    """Files that were looked for and are not there."""

    def __init__(self, lines: ThreadLines, log: CallLog) -> None:
        self.path, self.lines, self.log = lines.path, lines, log
        self.entries = log.entries
        self.left: set[int] = set()
        """Indexes of entries that the user took back, or that were written twice."""
        self.notices: list[Notice] = []
        self.failure = FailureRecord()
        self.at = self.id = ""
        self.node = -1
        self.entry_nodes: MutableSequence[int] = []
        """The place of each entry in the tree of records, where they are one."""
        self.source = self.offset = 0
        self.name = self.model = self.thinking = self.version = self.updated = self.parent = ""
        self.context_tokens: int | None = None
        self.context_window: int | None = None

    def read(self) -> Thread:
        """Read the thread as `ThreadFollower` does."""
        raise NotImplementedError

    def is_continued(self) -> bool:
        return self.lines.is_continued()

    def build_handlers(self) -> None:
        """Build what handles the kinds of lines, which is not a part of the reader's state."""

    def get_state(self) -> dict[str, Any]:
        """Return all that another reader of the same file needs to read on."""
        return {name: value for name, value in vars(self).items() if name not in MADE_ANEW}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where a reader of this state was."""
        vars(self).update(state)
        self.build_handlers()

    def add_entry(
        self,
        kind: EntryKind,
        text: str = "",
        origin: Origin = "typed",
        tool: ToolCall | None = None,
        id: str | None = None,
    ) -> Entry:
        """Add an entry; `id` is its own where that of the record is not."""
        ref, id = len(self.entries) + 1, self.id if id is None else id
        entry = Entry(
            ref, kind, text, self.at, id, origin, tool, False, 0, self.source, self.offset
        )
        self.entries.append(entry)
        self.entry_nodes.append(self.node)
        return entry

    def add_call(self, id: str, name: str, given: ToolInput, **how: Any) -> ToolCall:
        """Add a call, as `build_tool_call` takes it; its result is still to come."""
        call = build_tool_call(id, name, given, **how)
        self.log.add(self.add_entry("tool", tool=call), given)
        return call

    def add_notice(self, kind: NoticeKind, text: str) -> None:
        """Add a notice behind the last entry."""
        self.notices.append(Notice(len(self.entries), kind, text[:MOST_NOTICE]))

    def choose_entries(self) -> list[Entry]:
        """Return the entries that are left."""
        return [entry for index, entry in enumerate(self.entries) if index not in self.left]

    def build_thread(self, id: str, **facts: Any) -> Thread:
        """Build the thread; `facts` are what only its harness knows, or knows better."""
        live, log = self.choose_entries(), self.log
        ends = [notice.kind for notice in self.notices[-1:] if notice.after == len(self.entries)]
        thread = Thread(
            harness=self.harness,
            id=id,
            path=str(self.path),
            model=self.model,
            thinking=self.thinking,
            version=self.version,
            tools=tuple(log.names),
            name=self.name,
            parent=self.parent,
            updated=self.updated,
            context_tokens=self.context_tokens,
            context_window=self.context_window,
            entries=tuple(mark_compacted(live)),
            notices=tuple(self.notices),
            background=log.background.list_items(),
            skills=tuple(log.skills),
            aborted=ends == ["interrupted"],
            abandoned=len(self.entries) - len(live),
            sources=(str(self.path),),
            failure=self.failure.choose(live),
            report=self.lines.build_report(),
            documents=tuple(self.lines.gate.log.documents),
        )
        return replace(thread, **facts)
