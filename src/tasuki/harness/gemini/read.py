"""Read session files of Gemini CLI: event logs (0.61) and documents (0.1x to 0.3x)."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import force_setattr as put

from tasuki.errors import ThreadUnreadable
from tasuki.harness.gemini import format as record
from tasuki.harness.gemini import tool_calls as made
from tasuki.harness.gemini import view
from tasuki.harness.gemini.head import HEAD_BYTES, find_folder, list_sidechains
from tasuki.harness.reading.jsonl import ThreadLines, choose_keep_limit
from tasuki.harness.reading.threads import ThreadReader
from tasuki.harness.tool_table.calls import CallLog
from tasuki.harness.tool_table.tools import read_input
from tasuki.model import Thread, ToolCall, ToolStatus

CANCELLED = "Request cancelled."
_ACKNOWLEDGED = "Got it. Thanks for the additional context!"
_PLACEHOLDER = "[The previous response was interrupted before it completed.]"
_IMPORTED = "Imported session from "
_NONE = "Gemini CLI session"


class GeminiReader(ThreadReader):
    """One pass over one session file."""

    harness = "gemini"

    def __init__(self, path: Path) -> None:
        super().__init__(ThreadLines(path), CallLog(choose_keep_limit(path)))
        self.fields = record.GeminiSessionFields()
        self.nodes: dict[str, view.ViewedMessage] = {}
        self.shown: list[view.ViewedMessage] = []
        """The messages in view, in order."""
        self.replay: view.CopyFinder | None = None
        """A search through the view while Gemini CLI writes the whole history again."""
        self.settled: set[str] = set()
        """Calls that have their result."""
        self.labels: dict[str, str] = {}
        """The task of each sub-agent, by its id."""
        self.last_prompt = ""
        self.is_log = True
        self.after_summary = False
        self.first = b""

    def read(self) -> Thread:
        for offset, raw in self.lines:
            if not self.first and record.is_document(raw):
                self._read_document(record.read_document(self.path))
                break
            if len(self.first) < HEAD_BYTES:
                self.first += raw
            if (line := self.lines.decode(record.LINE, raw)) is not None:
                self.offset = offset
                self._take_line(line)
        return self._build_thread()

    def _read_document(self, data: bytes) -> None:
        """Read a whole document; its parts count as lines: the fields, then each message."""
        lines, self.is_log, self.first = self.lines, False, data
        lines.number, lines.bytes = 1, len(data)
        fields = lines.decode(record.FIELDS, record.extract_outer_json(data))
        if fields is not None:
            self._patch_fields(fields)
        for element in record.list_elements(data):
            lines.number += 1
            self.offset = element.offset
            if element.error is not None:
                lines.note_broken(element.error)
            elif not element.data:
                lines.truncated = True
            elif (message := lines.decode(record.MESSAGE, element.data)) is not None:
                self._on_message(message)

    def _take_line(self, line: record.GeminiLogLine) -> None:
        if line.rewind is not None:
            self._drop_from(line.rewind)
        elif line.id:
            self._on_message(line)
        elif line.set is not None:
            self._patch_fields(line.set)
            if line.set.messages is not None:
                self._replace_messages(line.set.messages)
        elif line.sessionId and line.projectHash:
            self._patch_fields(line)
            self.is_log = self.is_log and line.messages is None
            for message in line.messages or ():
                self._on_message(message)
        else:
            self.lines.count_unknown(line.type, has_words=line.content)

    def _patch_fields(self, new: record.GeminiSessionFields) -> None:
        self.fields = record.merge_fields(self.fields, new)
        self.updated = max(self.updated, new.lastUpdated or new.startTime or "")

    # -- messages ----------------------------------------------------------------------

    def _on_message(self, message: record.GeminiMessage) -> None:
        self.id, self.at = message.id, message.timestamp
        self.updated = max(self.updated, message.timestamp)
        if not message.id or message.type not in ("user", "gemini", "info", "warning", "error"):
            self.lines.count_unknown(message.type, has_words=message.content)
            return
        parsed = view.parse_message(message)
        node = self.nodes.get(message.id)
        if node is not None:
            self._fill_node(node, parsed)
            return
        if parsed.context and self.shown and self.replay is None and self.entries:
            self.replay = view.CopyFinder(self.shown)
        copied = self.replay.find_originals(parsed) if self.replay else []
        if copied:
            self.nodes[message.id] = copied[-1]
            return
        self.shown.append(self._add_node(parsed))

    def _add_node(self, parsed: view.ParsedMessage, *, is_read: bool = True) -> view.ViewedMessage:
        node = view.ViewedMessage(parsed.text, parsed.message.type, set(parsed.calls), [], False)
        self.nodes[parsed.message.id] = node
        if is_read:
            self._fill_node(node, parsed)
        return node

    def _fill_node(self, node: view.ViewedMessage, parsed: view.ParsedMessage) -> None:
        """Read a message for the first time, or its update."""
        kind = parsed.message.type
        before = len(self.entries)
        if kind == "user":
            self._read_user_message(node, parsed)
        elif kind == "gemini":
            self._read_reply(node, parsed)
        elif not node.entries:
            self._read_info(kind, parsed)
        node.calls.update(parsed.calls)
        node.entries = [*node.entries, *range(before, len(self.entries))]

    def _read_user_message(self, node: view.ViewedMessage, parsed: view.ParsedMessage) -> None:
        for part in parsed.parts:
            if (response := part.functionResponse) is not None and response.id not in self.settled:
                finished = record.GeminiToolCall(response.id or "", response.name, result=part)
                self._add_result(finished, "unknown", made.extract_output(finished))
        if node.entries or not parsed.text.strip():
            return
        if parsed.summary:
            self.add_entry("compaction", parsed.text.strip(), "harness")
            self.after_summary = True
            return
        if (call := made.parse_user_command(self.id, parsed.text, self.log.keep)) is not None:
            self.add_entry("tool", origin="command", tool=call)
            return
        self.lines.gate.log.find(parsed.text)
        displayed = "".join(record.list_texts(record.list_parts(parsed.message.displayContent)))
        text, own = record.extract_user_text(parsed.text, displayed, self.last_prompt)
        if not text:
            return
        origin, text = self.lines.gate.judge(text, "" if own else "program")
        if own:
            self.last_prompt = displayed or text
            self.log.settle("unknown")
        node.prompt = own
        self.add_entry("user", text, origin)

    def _read_reply(self, node: view.ViewedMessage, parsed: view.ParsedMessage) -> None:
        message, text = parsed.message, parsed.text
        # Gemini CLI writes these answers itself, so that turns alternate.
        fillers = (_PLACEHOLDER, _ACKNOWLEDGED) if self.after_summary else (_PLACEHOLDER,)
        reply_index = next((i for i in node.entries if self.entries[i].kind == "assistant"), None)
        if reply_index is not None and text.strip():
            put(self.entries[reply_index], "text", text)
            node.text = text
        elif text.strip() and text.strip() not in fillers:
            self.add_entry("assistant", text)
        self.after_summary = False
        for call in message.toolCalls or ():
            self._add_call(call)
        for part in parsed.parts:
            if (requested := part.functionCall) is None:
                continue
            last = self.entries[-1].tool if self.entries else None
            if not (requested.id or last is None or last.name != requested.name):
                continue
            id, name = requested.id or f"{message.id}:{requested.name}", requested.name
            if id not in self.log.calls:
                call = record.GeminiToolCall(id, name, requested.args, status="executing")
                self._add_call(call)
        self.model = message.model or self.model
        self.context_tokens = record.find_context_size(message.tokens) or self.context_tokens

    def _read_info(self, kind: str, parsed: view.ParsedMessage) -> None:
        text = parsed.text.strip()
        if kind == "info" and text == CANCELLED:
            self.add_notice("interrupted", "")
        elif text.startswith(_IMPORTED):
            self.parent = text.removeprefix(_IMPORTED)
        elif not text and not self.is_log and kind == "info" and self.entries:
            # This is all that a document records of `/compress`.
            self.add_entry("compaction", "", "harness")
        elif text:
            self.add_notice("error" if kind == "error" else "note", text)
            if kind == "error":
                self.failure.note_error(text, parsed.message.timestamp, len(self.entries))

    # -- calls -------------------------------------------------------------------------

    def _add_call(self, call: record.GeminiToolCall) -> None:
        if not call.id:
            call.id = f"{self.id}:{len(self.entries)}"
        entry = self.log.calls.get(call.id)
        if entry is None:
            given = read_input(call.args)
            entry = self.add_entry("tool", tool=made.build_tool_call(call, given))
            self.log.add(entry, given)
        if call.agentId and entry.tool:
            self.labels[call.agentId] = " ".join(entry.tool.detail.split())[:200]
        if call.result is not None or call.status:
            output = made.extract_output(call)
            self._add_result(call, made.find_status(call, output), output)

    def _add_result(self, finished: record.GeminiToolCall, status: ToolStatus, output: str) -> None:
        """Add the result of a call, from the call itself or from what the model was given."""
        entry = self.log.calls.get(finished.id)
        if entry is None or (call := entry.tool) is None:
            self.lines.count_unknown("result without a call")
            return
        settled = finished.id in self.settled
        if settled and (status == "unknown" or finished.result is None):
            return
        if status == "unknown":
            status = "error" if made.has_failed(finished) else "ok"
        code = None
        if call.kind == "shell" and status in ("ok", "error"):
            result = made.parse_shell_result(output)
            code = result.code if status == "ok" else result.code or None
            status, output = "error" if result.code else status, result.output
            if result.session:
                status, code = self.log.start_job(call, result.session), None
        is_open = status == "running" and not call.background
        was_open = finished.id in self.log.open
        self.log.finish(call, output, status, code)
        if call.kind == "agent" and made.has_agent_failed(output):
            self.log.background.record_end(call.id, failed=True)
        if is_open and was_open:
            self.log.open[finished.id] = call
        elif not settled and not is_open:
            self.settled.add(finished.id)
            self._apply_effects(call, status, output)

    def _apply_effects(self, call: ToolCall, status: ToolStatus, output: str) -> None:
        if call.name == "list_background_processes":
            for process, code in made.find_ended_processes(output):
                self.log.background.record_end(process, code=code)
        elif (
            call.kind == "ask"
            and status == "ok"
            and (words := made.find_answer(self.log.questions.get(call.id, ()), output))
        ):
            self.add_entry("user", words, "answer")

    # -- the list of messages ----------------------------------------------------------

    def _drop_from(self, id: str) -> None:
        """Go back to before a message; it and all after it is dropped."""
        self.replay = None
        node = self.nodes.get(id)
        position = next((i for i, n in enumerate(self.shown) if n is node), 0)
        self._leave_entries(self.shown[position:])
        del self.shown[position:]

    def _leave_entries(self, nodes: Iterable[view.ViewedMessage]) -> None:
        for node in nodes:
            self.left.update(node.entries)

    def _replace_messages(self, messages: list[record.GeminiMessage]) -> None:
        """Replace the list of messages: compacted, cut back, or only written again."""
        self.replay = None
        listed = [view.parse_message(m) for m in messages if m.id and m.type in ("user", "gemini")]
        nodes = [self.nodes.get(parsed.message.id) for parsed in listed]
        if copies := view.find_copies(self.shown, listed, nodes):
            for parsed, originals in zip(listed, copies, strict=True):
                self.nodes[parsed.message.id] = originals[-1]
            self._leave_entries(node for node in nodes if node is not None)
            self._show(node for originals in copies for node in originals)
            return
        finder, compacted = view.CopyFinder(self.shown), False
        ordered: list[view.ViewedMessage | view.ParsedMessage] = []
        for parsed, node in zip(listed, nodes, strict=True):
            compacted = compacted or (parsed.summary and node is None)
            if node:
                finder.pass_node(node)
            found = [node] if node else finder.find_originals(parsed, last=compacted)
            if found:
                self.nodes[parsed.message.id] = found[-1]
            ordered.extend(found or [parsed])
        kept = [item for item in ordered if isinstance(item, view.ViewedMessage)]
        if not compacted:
            new = [item for item in ordered if isinstance(item, view.ParsedMessage)]
            compacted = self._cut_missing(kept, new)
        self._show(
            i if isinstance(i, view.ViewedMessage) else self._add_listed(i, compacted)
            for i in ordered
        )
        last = next((e for e in reversed(self.entries) if e.kind == "compaction"), None)
        if compacted and last is not None:
            put(last, "kept_from", min((i for n in kept for i in n.entries), default=-1) + 1)
        self.after_summary = False

    def _show(self, nodes: Iterable[view.ViewedMessage]) -> None:
        """Replace the messages in view; each of them is kept once."""
        self.shown = list({id(node): node for node in nodes}.values())

    def _add_listed(self, parsed: view.ParsedMessage, compacted: bool) -> view.ViewedMessage:
        """Add a message of a new list: after a compaction, only its summary counts."""
        self.id, self.at = parsed.message.id, parsed.message.timestamp
        return self._add_node(parsed, is_read=parsed.summary or not compacted)

    def _cut_missing(self, kept: list[view.ViewedMessage], new: list[view.ParsedMessage]) -> bool:
        """Drop what is missing from the list: a branch is dropped, a single prompt is kept.

        Gemini CLI removes a cancelled or failed prompt from the list with all its work, which
        was done all the same. Returns whether the beginning was removed.
        """
        before = self.shown
        staying = {id(node) for node in kept}
        self.left.difference_update(i for node in kept for i in node.entries)
        removed = [i for i, n in enumerate(before) if n.prompt and id(n) not in staying]
        last = max((i for i, n in enumerate(before) if n.prompt and id(n) in staying), default=-1)
        if removed and removed[0] < last:
            self.add_entry("compaction", "\n".join(n.text for n in new).strip(), "harness")
            return True
        if len(removed) > 1:
            self._leave_entries(n for n in before if id(n) not in staying)
        return False

    # -- the whole ---------------------------------------------------------------------

    def _build_thread(self) -> Thread:
        fields = self.fields
        if not fields.sessionId or not fields.projectHash:
            damaged = self.lines.truncated or self.lines.broken
            why = "start of a Gemini CLI session: it is cut off or damaged" if damaged else _NONE
            raise ThreadUnreadable(f"{self.path} holds no {why}.")
        return self.build_thread(
            fields.sessionId,
            cwd=find_folder(self.path, self.first, fields),
            name=" ".join((fields.summary or "").split()),
            started=fields.startTime or "",
            sidechains=list_sidechains(self.path, fields.sessionId, self.labels),
        )
