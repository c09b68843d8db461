"""Reading session files of Gemini CLI: event logs (0.61) and documents (0.1x to 0.3x)."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import force_setattr as put

from tasuki.errors import ThreadUnreadable
from tasuki.harness import tools
from tasuki.harness.gemini import calls as made
from tasuki.harness.gemini.format import (
    FIELDS,
    LINE,
    MESSAGE,
    Call,
    Fields,
    Line,
    Message,
    context_size,
    elements,
    fields_around,
    fields_of,
    is_document,
    parts_of,
    texts_of,
    typed,
)
from tasuki.harness.gemini.head import HEAD_BYTES, folder_of, sidechains
from tasuki.harness.gemini.view import Finder, Look, Node, View, look
from tasuki.harness.jsonl import (
    BYTE_ORDER_MARK,
    Lines,
    begins_handoff,
    clip,
    keep_limit,
    mark_compacted,
)
from tasuki.model import (
    Entry,
    EntryKind,
    Notice,
    Origin,
    Thread,
    ToolCall,
    ToolStatus,
)

CANCELLED = "Request cancelled."
_ACKNOWLEDGED = "Got it. Thanks for the additional context!"
_PLACEHOLDER = "[The previous response was interrupted before it completed.]"
_IMPORTED = "Imported session from "
_NONE = "Gemini CLI session"


class Reader:
    """One pass over one session file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = Lines(path)
        self.keep = keep_limit(path)
        self.fields = Fields()
        self.entries: list[Entry] = []
        self.left: set[int] = set()
        """Entries that the user rewound, and those written twice, by index."""
        self.nodes: dict[str, Node] = {}
        self.view = View()
        self.replay: Finder | None = None
        """A search through the view while Gemini CLI writes the whole history anew."""
        self.calls: dict[str, Entry] = {}
        self.open: dict[str, Entry] = {}
        """Calls that have no result yet."""
        self.settled: set[str] = set()
        """Calls that have their result."""
        self.notices: list[Notice] = []
        self.background = tools.BackgroundLog()
        self.skills: list[str] = []
        self.tool_names: dict[str, None] = {}
        self.labels: dict[str, str] = {}
        """What each sub-agent was asked for, by its id."""
        self.model = self.updated = self.parent = self.said_last = ""
        self.context_tokens: int | None = None
        self.log = True
        self.after_summary = False
        self.first = b""
        self.message = Message()
        self.offset = 0

    def read(self) -> Thread:
        lines = iter(self.lines)
        for offset, raw in lines:
            if not self.first and is_document(raw):
                self._document(self._whole())
                break
            if len(self.first) < HEAD_BYTES:
                self.first += raw
            if (line := self.lines.decode(LINE, raw)) is not None:
                self.offset = offset
                self._take(line)
        return self._thread()

    def _whole(self) -> bytes:
        try:
            data = self.path.read_bytes()
        except OSError as exc:
            raise ThreadUnreadable(f"Cannot read {self.path}: {exc.strerror}.") from exc
        marked = data.startswith(BYTE_ORDER_MARK)
        return b"   " + data[len(BYTE_ORDER_MARK) :] if marked else data  # offsets stay

    def _document(self, data: bytes) -> None:
        """Take in a whole document; its parts count as lines: the fields, then each message."""
        lines, self.log, self.first = self.lines, False, data
        lines.number, lines.bytes = 1, len(data)
        found = lines.decode(FIELDS, fields_around(data))
        if found is not None:
            self._patch(found)
        for element in elements(data):
            lines.number += 1
            self.offset = element.offset
            if element.error is not None:
                lines.note_broken(element.error)
            elif not element.data:
                lines.truncated = True
            elif (message := lines.decode(MESSAGE, element.data)) is not None:
                self._on_message(message)

    def _take(self, line: Line) -> None:
        if line.rewind is not None:
            self._rewind(line.rewind)
        elif line.id:
            self._on_message(line)
        elif line.set is not None:
            self._patch(line.set)
            if line.set.messages is not None:
                self._replace(line.set.messages)
        elif line.sessionId and line.projectHash:
            self._patch(fields_of(line))
            self.log = self.log and line.messages is None
            for message in line.messages or ():
                self._on_message(message)
        else:
            self.lines.unknown[line.type or "(no type)"] += 1

    def _patch(self, new: Fields) -> None:
        known = self.fields
        self.fields = Fields(
            known.sessionId or new.sessionId,
            known.projectHash or new.projectHash,
            known.startTime or new.startTime,
            new.lastUpdated or known.lastUpdated,
            new.kind or known.kind,
            new.summary or known.summary,
            new.directories or known.directories,
        )
        self._at(new.lastUpdated or new.startTime)

    def _at(self, time: str | None) -> None:
        self.updated = max(self.updated, time or "")

    def _entry(
        self,
        kind: EntryKind,
        text: str = "",
        origin: Origin = "typed",
        tool: ToolCall | None = None,
    ) -> Entry:
        message = self.message
        entry = Entry(
            len(self.entries) + 1, kind, text, message.timestamp, message.id, origin, tool, False,
            0, 0, self.offset,
        )  # fmt: skip
        self.entries.append(entry)
        return entry

    def _notice(self, kind: str, text: str) -> None:
        self.notices.append(Notice(after=len(self.entries), kind=kind, text=text[:300]))  # type: ignore[arg-type]

    # -- messages ----------------------------------------------------------------------

    def _on_message(self, message: Message) -> None:
        self.message = message
        self._at(message.timestamp)
        if not message.id or message.type not in ("user", "gemini", "info", "warning", "error"):
            self.lines.unknown[message.type or "(no type)"] += 1
            return
        seen = look(message)
        node = self.nodes.get(message.id)
        if node is not None:
            self._fill(node, seen)
            return
        if seen.context and self.view.nodes and self.replay is None and self.entries:
            self.replay = self.view.finder()
        copied = self.replay.copied(seen) if self.replay else []
        if copied:
            self.nodes[message.id] = copied[-1]
            return
        self.view.nodes.append(self._made(seen))

    def _made(self, seen: Look) -> Node:
        node = Node(seen.said, seen.message.type, set(seen.calls), [], False)
        self.nodes[seen.message.id] = node
        self._fill(node, seen)
        return node

    def _fill(self, node: Node, seen: Look) -> None:
        """Take in a message for the first time, or what has become of it."""
        kind = seen.message.type
        before = len(self.entries)
        if kind == "user":
            self._said(node, seen)
        elif kind == "gemini":
            self._replied(node, seen)
        elif not node.entries:
            self._told(kind, seen)
        node.calls.update(seen.calls)
        node.entries = [*node.entries, *range(before, len(self.entries))]

    def _said(self, node: Node, seen: Look) -> None:
        for part in seen.parts:
            if (told := part.functionResponse) is not None and told.id not in self.settled:
                done = Call(told.id or "", told.name, result=part)
                self._result(done, "unknown", made.output_of(done))
        if node.entries or not seen.said.strip():
            return
        if seen.summary:
            self._entry("compaction", seen.said.strip(), "harness")
            self.after_summary = True
            return
        if (call := made.user_command(self.message.id, seen.said, self.keep)) is not None:
            self._entry("tool", origin="command", tool=call)
            return
        shown = "".join(texts_of(parts_of(seen.message.displayContent)))
        text, own = typed(seen.said, shown, self.said_last)
        if not text:
            return
        origin: Origin = "typed" if own else "harness"
        if begins_handoff(text):
            origin = "handoff"
        if own:
            self.said_last = shown or text
            self._settle()
        node.prompt = own
        self._entry("user", text, origin)

    def _replied(self, node: Node, seen: Look) -> None:
        message, text = seen.message, seen.said
        told = next((i for i in node.entries if self.entries[i].kind == "assistant"), None)
        if told is not None and text.strip():
            put(self.entries[told], "text", text)
            node.said = text
        elif text.strip() and not self._filler(text.strip()):
            self._entry("assistant", text)
        self.after_summary = False
        for call in message.toolCalls or ():
            self._called(call)
        for part in seen.parts:
            if (asked := part.functionCall) is None:
                continue
            last = self.entries[-1].tool if self.entries else None
            if asked.id or last is None or last.name != asked.name:
                id = asked.id or f"{message.id}:{asked.name}"
                if id not in self.calls:
                    self._called(Call(id, asked.name, asked.args, status="executing"))
        self.model = message.model or self.model
        self.context_tokens = context_size(message.tokens) or self.context_tokens

    def _told(self, kind: str, seen: Look) -> None:
        text = seen.said.strip()
        if kind == "info" and text == CANCELLED:
            self._notice("interrupted", "")
        elif text.startswith(_IMPORTED):
            self.parent = text.removeprefix(_IMPORTED)
        elif not text and not self.log and kind == "info" and self.entries:
            self._entry("compaction", "", "harness")  # All that a document says of `/compress`.
        elif text:
            self._notice("error" if kind == "error" else "note", text)

    def _filler(self, text: str) -> bool:
        """Whether Gemini CLI wrote an answer itself, so that turns alternate."""
        return text == _PLACEHOLDER or (self.after_summary and text == _ACKNOWLEDGED)

    # -- calls -------------------------------------------------------------------------

    def _called(self, call: Call) -> None:
        if not call.id:
            call.id = f"{self.message.id}:{len(self.entries)}"
        entry = self.calls.get(call.id)
        if entry is None:
            asked = made.tool_call(call)
            entry = self.calls[call.id] = self.open[call.id] = self._entry("tool", tool=asked)
            self.tool_names[asked.name] = None
            if asked.kind == "agent":
                self.background.started(call.id, "agent", asked.detail, entry.ref)
            if asked.kind == "skill" and asked.detail:
                self.skills.append(asked.detail)
        if call.agentId and entry.tool:
            self.labels[call.agentId] = " ".join(entry.tool.detail.split())[:200]
        if call.result is not None or call.status:
            output = made.output_of(call)
            self._result(call, made.status_of(call, output), output)

    def _result(self, done: Call, status: ToolStatus, output: str) -> None:
        """The result of a call, from the call itself or from what the model was given."""
        entry = self.calls.get(done.id)
        if entry is None or (call := entry.tool) is None:
            self.lines.unknown["result without a call"] += 1
            return
        settled = done.id in self.settled
        if settled and (status == "unknown" or done.result is None):
            return
        if status == "unknown":
            status = "error" if made.failed(done) else "ok"
        if call.kind == "shell":
            output, status = self._shell(entry, call, output, status)
        size = len(output)
        put(call, "output", output if size <= self.keep else clip(output, self.keep))
        put(call, "output_size", size)
        put(call, "status", status)
        if not settled and (status != "running" or call.background):
            self.settled.add(done.id)
            self.open.pop(done.id, None)
            self._effects(call, status, output)

    def _settle(self) -> None:
        """The conversation went on: calls that got no result will never get one."""
        for entry in self.open.values():
            if call := entry.tool:
                put(call, "status", "unknown")
                self.background.ended(call.id, failed=True)
        self.open.clear()

    def _shell(
        self, entry: Entry, call: ToolCall, text: str, status: ToolStatus
    ) -> tuple[str, ToolStatus]:
        if status not in ("ok", "error"):
            return text, status
        told = made.shell_result(text)
        if told.background:
            put(call, "background", told.background)
            self.background.started(told.background, "command", call.command, entry.ref)
            return told.output, "running"
        put(call, "exit_code", told.exit_code if status == "ok" else told.exit_code or None)
        return told.output, "error" if told.exit_code else status

    def _effects(self, call: ToolCall, status: ToolStatus, output: str) -> None:
        if call.kind == "agent":
            self.background.ended(call.id, failed=status != "ok" or made.agent_failed(output))
        elif call.name == "list_background_processes":
            for process, failed in made.processes_in(output):
                self.background.ended(process, failed=failed)
        elif call.kind == "ask" and status == "ok" and (words := made.answer_in(output)):
            self._entry("user", words, "answer")

    # -- the list of messages ----------------------------------------------------------

    def _rewind(self, id: str) -> None:
        """The user went back to before a message; it and all behind it is left."""
        self.replay = None
        node = self.nodes.get(id)
        self._leave(self.view.cut(node) if node else self.view.cut_all())

    def _leave(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.left.update(node.entries)

    def _replace(self, messages: list[Message]) -> None:
        """The list of messages was replaced: compacted, cut back, or only written anew."""
        self.replay = None
        looks = [look(m) for m in messages if m.id and m.type in ("user", "gemini")]
        known = [self.nodes.get(seen.message.id) for seen in looks]
        if copies := self.view.copies(looks, known):
            for seen, originals in zip(looks, copies, strict=True):
                self.nodes[seen.message.id] = originals[-1]
            kept = [node for originals in copies for node in originals]
            self._leave(node for node in known if node is not None)
            self.view.set(kept)
            return
        finder, compacted = self.view.finder(), False
        ordered: list[Node | Look] = []
        for seen, node in zip(looks, known, strict=True):
            compacted = compacted or (seen.summary and node is None)
            found = finder.known(node) if node else finder.copied(seen, last=compacted)
            if found:
                self.nodes[seen.message.id] = found[-1]
            ordered.extend(found or [seen])
        kept = [item for item in ordered if isinstance(item, Node)]
        if not compacted:
            compacted = self._cut_back(kept, [i for i in ordered if isinstance(i, Look)])
        self.view.set(i if isinstance(i, Node) else self._brought(i, compacted) for i in ordered)
        if compacted:
            self._kept_from(kept)
        self.after_summary = False

    def _brought(self, seen: Look, compacted: bool) -> Node:
        """A message that came with a new list: after a compaction, only its summary counts."""
        self.message = seen.message
        if seen.summary or not compacted:
            return self._made(seen)
        node = Node(seen.said, seen.message.type, set(seen.calls), [], False)
        self.nodes[seen.message.id] = node
        return node

    def _kept_from(self, kept: list[Node]) -> None:
        last = next((e for e in reversed(self.entries) if e.kind == "compaction"), None)
        first = min((i for node in kept for i in node.entries), default=-1)
        if last is not None:
            put(last, "kept_from", first + 1)

    def _cut_back(self, kept: list[Node], new: list[Look]) -> bool:
        """What is gone from the list: a branch is left, a single prompt stays.

        Gemini CLI takes a cancelled or failed prompt out of the list with all its work, which
        was done all the same. Returns whether it was the beginning that went.
        """
        before = self.view.nodes
        staying = {id(node) for node in kept}
        self.left.difference_update(i for node in kept for i in node.entries)
        gone = [i for i, n in enumerate(before) if n.prompt and id(n) not in staying]
        last = max((i for i, n in enumerate(before) if n.prompt and id(n) in staying), default=-1)
        if gone and gone[0] < last:
            self._entry("compaction", "\n".join(n.said for n in new).strip(), "harness")
            return True
        if len(gone) > 1:
            self._leave(n for n in before if id(n) not in staying)
        return False

    # -- the whole ---------------------------------------------------------------------

    def _thread(self) -> Thread:
        fields = self.fields
        if not fields.sessionId or not fields.projectHash:
            damaged = self.lines.truncated or self.lines.broken
            why = "start of a Gemini CLI session: it is cut off or damaged" if damaged else _NONE
            raise ThreadUnreadable(f"{self.path} holds no {why}.")
        count = len(self.entries)
        live = [e for i, e in enumerate(self.entries) if i not in self.left]
        return Thread(
            harness="gemini",
            id=fields.sessionId,
            path=str(self.path),
            cwd=folder_of(self.path, self.first, fields),
            model=self.model,
            tools=tuple(self.tool_names),
            name=" ".join((fields.summary or "").split()),
            parent=self.parent,
            started=fields.startTime or "",
            updated=self.updated,
            context_tokens=self.context_tokens,
            entries=tuple(mark_compacted(live)),
            notices=tuple(self.notices),
            background=self.background.items(),
            sidechains=sidechains(self.path, fields.sessionId, self.labels),
            skills=tuple(self.skills),
            aborted=bool(self.notices)
            and self.notices[-1].kind == "interrupted"
            and self.notices[-1].after == count,
            abandoned=count - len(live),
            sources=(str(self.path),),
            report=self.lines.report(),
        )
