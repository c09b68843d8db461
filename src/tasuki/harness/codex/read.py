"""Read threads of Codex (0.53 to 0.169): one record a line, a flat list without parents.

Most of a rollout is recorded twice, as `response_item` and as `event_msg`: the items are
read, of the events only what the items lack.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tasuki.harness.codex import format as record
from tasuki.harness.codex.imports import find_original
from tasuki.harness.codex.tool_calls import CodexCallLog
from tasuki.harness.reading import jsonl
from tasuki.harness.reading.speakers import Evidence, SpeakerGate
from tasuki.harness.reading.threads import ThreadReader
from tasuki.harness.tool_table.calls import build_user_command
from tasuki.harness.tool_table.results import parse_result
from tasuki.model import Entry, Notice, Sidechain, Thread, ToolStatus
from tasuki.patterns import compile_pattern

_BEGINNING = b'{"timestamp":'
"""How a record begins: a line that is not decoded may hold another one."""
SKIM = compile_pattern(
    rb'\A\{"timestamp": ?"([^"]*)", ?(?:"ordinal": ?\d+, ?)?"type": ?"(\w+)", ?'
    rb'"payload": ?\{(?:"type": ?"(\w+)")?'
)
_TYPED_PAYLOAD = (b"response_item", b"event_msg")
_SKIPPED_ITEMS = (
    "reasoning ghost_snapshot compaction compaction_summary context_compaction "
    "image_generation_call tool_search_call tool_search_output other"
)
_SKIPPED_EVENTS = (
    "agent_message agent_message_delta agent_reasoning agent_reasoning_raw_content "
    "agent_reasoning_section_break patch_apply_begin web_search_begin "
    "web_search_end exec_command_begin exec_command_output_delta context_compacted "
    "thread_settings_applied item_started mcp_tool_call_begin mcp_tool_call_end "
    "view_image_tool_call entered_review_mode exited_review_mode plan_update turn_diff "
    "image_generation_end undo_completed collab_agent_spawn_end collab_waiting_end "
    "collab_close_end collab_agent_interaction_end collab_resume_end "
    "thread_goal_updated dynamic_tool_call_request dynamic_tool_call_response hook_completed "
    "hook_started session_configured background_event deprecation_notice warning "
    "guardian_assessment model_reroute"
)
_NO_INFO = compile_pattern(rb'"info": ?null')
_FILE_ID = compile_pattern(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")
_SKILL = compile_pattern(r"<skill>\s*<name>([^<]+)</name>")
_USER_SHELL = compile_pattern(
    r"\A<user_shell_command>\s*<command>\n?(.*?)\n?</command>\s*<result>\n?(.*?)\n?</result>",
    re.DOTALL,
)
SUMMARY_PREFACE = compile_pattern(r"\AAnother language model started.*?own analysis:\s*", re.DOTALL)


Key = tuple[bytes, bytes | None]
Step = tuple[msgspec.json.Decoder[Any] | None, Callable[[Any], None]]
"""How the payload of a line is decoded (None: not at all), and what handles it."""


class CodexReader(ThreadReader):
    """One pass over a rollout, and before it over the part of its parents that it builds on.

    With `follows` one more pass reads what was appended.
    """

    harness = "codex"
    log: CodexCallLog

    def __init__(
        self, path: Path, find: Callable[[str], Path | None], *, follows: bool = False
    ) -> None:
        log = CodexCallLog(jsonl.choose_keep_limit(path), self.add_entry)
        super().__init__(jsonl.ThreadLines(path), log)
        self.follows = follows
        self.passes: list[jsonl.ThreadLines] = []
        self.find = find
        """Path of another rollout by thread id, for forks and sub-agents."""
        self.meta: record.CodexMeta | None = None
        self.missing = ""
        self.context = self.count = self.rates = b""
        self.stamp = b""
        self.in_turn = False
        self.turn_users = 0
        self.unconfirmed: dict[int, str] = {}
        """Messages of user role that no event has confirmed yet: their whole texts."""
        self.confirmed: set[str] = set()
        self.doubted: tuple[str, Counter[str]] | None = None
        """A text in an envelope that nobody knows, and the envelopes that were met before it."""
        self.is_imported = False
        """The turn is a copy of another program's: its events prove nothing."""
        self.imported = 0
        """Entries that are such copies."""
        self.build_handlers()

    def build_handlers(self) -> None:
        item, event = _TYPED_PAYLOAD
        call, result = (record.CALL, self.log.add_call), (record.RESULT, self._on_result)
        table: dict[Key, Step | None] = {
            (item, b"message"): (record.MESSAGE, self._on_message),
            (item, b"function_call"): call,
            (item, b"custom_tool_call"): call,
            (item, b"local_shell_call"): call,
            (item, b"function_call_output"): result,
            (item, b"custom_tool_call_output"): result,
            (item, b"web_search_call"): (record.CALL, self._on_web_search),
            (item, b"agent_message"): (record.AGENT, self._on_agent_message),
            (event, b"user_message"): (record.EVENT, self._on_user_message),
            (event, b"exec_command_end"): (None, self.log.read_exec_end),
            (event, b"item_completed"): (None, self.log.read_item),
            (event, b"patch_apply_end"): (None, self.log.read_patch_end),
            (event, b"sub_agent_activity"): (record.AGENT, self.log.record_agent),
            (event, b"token_count"): (None, self._on_count),
            (event, b"task_started"): (None, self._on_turn_started),
            (event, b"turn_started"): (None, self._on_turn_started),
            (event, b"task_complete"): (record.EVENT, self._on_turn_complete),
            (event, b"turn_complete"): (record.EVENT, self._on_turn_complete),
            (event, b"turn_aborted"): (record.EVENT, self._on_turn_aborted),
            (event, b"error"): (record.EVENT, self._on_error),
            (event, b"stream_error"): (record.EVENT, self._on_error),
            (event, b"thread_rolled_back"): (record.EVENT, self._on_rolled_back),
            (event, b"thread_name_updated"): (record.EVENT, self._on_name),
            (b"session_meta", None): (record.META, self._on_meta),
            (b"turn_context", None): (None, self._on_context),
            (b"compacted", None): (record.COMPACTED, self._on_compacted),
            (b"world_state", None): None,
            (b"token_usage_record", None): None,
        }
        table.update({(item, t.encode()): None for t in _SKIPPED_ITEMS.split()})
        table.update({(event, t.encode()): None for t in _SKIPPED_EVENTS.split()})
        self.handlers = table

    def read(self) -> Thread:
        if self.passes:
            self._read_lines()
            return self._build_thread()
        for source, path, end in self._list_files():
            self.source = source
            self.lines = jsonl.ThreadLines(path, end, follows=self.follows and source == 0)
            self._read_lines()
            self.passes.append(self.lines)
        return self._build_thread()

    def _list_files(self) -> Iterator[tuple[int, Path, int | None]]:
        """Yield the file and the beginnings of its parents, eldest first, with their index."""
        chain: list[tuple[Path, int | None]] = [(self.path, None)]
        while base := record.read_history_base(chain[-1][0]):
            parent = self.find(base.thread_id)
            if parent is None or parent in (p for p, _ in chain):
                self.missing = base.thread_id
                break
            chain.append((parent, base.end_byte_offset))
        self.files = [p for p, _ in chain]
        for index in range(len(chain) - 1, -1, -1):
            yield index, *chain[index]

    def _read_lines(self) -> None:
        skim, table = SKIM.match, self.handlers
        for offset, line in self.lines:
            self.offset = offset
            match = skim(line)
            if match:
                self.stamp = match[1]
            if match is None or (match[3] is None and match[2] in _TYPED_PAYLOAD):
                self._read_unusual_line(line)
                continue
            key: Key = match.group(2, 3)  # type: ignore[assignment]
            if key not in table and key[0] not in _TYPED_PAYLOAD:
                key = (key[0], None)
            step = table.get(key)
            is_left = step is None or step[0] is None
            if is_left and (line[-2:] != b"}\n" or line.find(_BEGINNING, 1) > 0):
                self._read_unusual_line(line)
            elif step:
                self._take_line(step, line)
            elif key not in table:
                self._count_unknown(key)

    def _take_line(self, step: Step, line: bytes) -> None:
        decoder, handler = step
        self.at = self.stamp.decode()
        if decoder is None:
            handler(line)
            return
        try:
            parsed = decoder.decode(line)
        except jsonl.UNDECODABLE:
            parsed = self.lines.decode(decoder, line)
        if parsed is not None:
            handler(parsed.payload)

    def _read_unusual_line(self, line: bytes) -> None:
        """Read a line whose keys are in another order, or that is broken."""
        if (parsed := self.lines.decode(record.ANY, line)) is None:
            return
        self.stamp = parsed.timestamp.encode() or self.stamp
        kind, sub = parsed.type.encode(), None
        if kind in _TYPED_PAYLOAD:
            typed = jsonl.decode_part(
                record.PAYLOAD_TYPE, parsed.payload, record.CodexPayloadType()
            )
            sub = typed.type.encode()
        if (kind, sub) not in self.handlers:
            self._count_unknown((kind, sub))
        elif step := self.handlers[kind, sub]:
            self._take_line(step, line)

    def _count_unknown(self, key: Key) -> None:
        name = b"/".join(filter(None, key)).decode()
        self.lines.count_unknown(name, has_words=key[0] == b"response_item")

    # -- items -------------------------------------------------------------------------

    def _on_message(self, message: record.CodexMessage) -> None:
        if message.role == "assistant" and self.is_imported:
            self.log.read_imported(jsonl.extract_text(message.content))
        elif message.role == "assistant":
            if (text := jsonl.extract_text(message.content)).strip():
                self.add_entry("assistant", text, id=message.id or "")
        elif message.role == "user":
            self._on_user(message)

    def _on_user(self, message: record.CodexMessage) -> None:
        text, typed = record.extract_user_text(message)
        if not text:
            return
        if match := _USER_SHELL.match(text):
            ran, id = parse_result(match[2]), message.id or ""
            call = build_user_command(id, match[1], ran.output, self.log.keep, ran.code)
            self.add_entry("tool", origin="command", tool=call, id=id)
            return
        is_child = self.meta is not None and self.meta.is_child
        evidence: Evidence = "" if typed is None else "user" if typed else "program"
        if is_child:
            evidence = "program"
        queued = self.in_turn and bool(self.turn_users)
        gate, known = self.lines.gate, self.lines.gate.unknown.copy()
        origin, words = gate.judge(text, evidence, queued=queued)
        self.doubted = None
        if origin == "harness" and not is_child:
            self.doubted = (text, known) if gate.unknown != known else None
            self._on_pseudo_user(text)
            return
        if not self.in_turn:
            self.log.settle("unknown")
        if typed is None:
            self.unconfirmed[len(self.entries)] = text
        else:
            self.turn_users += 1
        self.add_entry("user", words, origin, id=message.id or "")

    def _on_pseudo_user(self, text: str) -> None:
        if match := _SKILL.match(text):
            self.log.skills.append(match[1].strip())
        elif text.startswith("<subagent_notification>"):
            self.log.record_ended_agents(text)
        if not text.startswith("<turn_aborted>"):
            self.add_notice("context", text)

    def _on_result(self, result: record.CodexResult) -> None:
        if not self.log.add_result(result.call_id, result.output):
            self._count_unknown((b"response_item", b"output without a call"))

    def _on_agent_message(self, message: record.CodexAgentActivity) -> None:
        """Read what a sub-agent reports; with its final answer it ends."""
        text = jsonl.extract_text(message.content)
        if text.startswith("Message Type: FINAL_ANSWER"):
            self.log.background.record_end(message.author)
        self.add_notice("context", text)

    def _on_web_search(self, record_call: record.CodexCall) -> None:
        """Note a search by the model's own server: no call id, no result, so no entry."""
        if action := record_call.action:
            self.add_notice("note", f"web search: {action.query or action.url or ''}".strip())
        self.log.names["web_search"] = None

    # -- events ------------------------------------------------------------------------

    def _on_user_message(self, event: record.CodexEvent) -> None:
        """Confirm that the user entry before it was typed; other text of user role has no such event."""
        self.turn_users += 1
        said = (event.message or "").strip()
        self.confirmed.add(said)
        if self.doubted and self.doubted[0] == said and not self.is_imported:
            self.lines.gate.unknown = self.doubted[1]
            origin, words = self.lines.gate.judge(said, "user")
            self.notices.pop()
            self.add_entry("user", words, origin)
        elif self.unconfirmed:
            self.unconfirmed.popitem()
        self.doubted = None

    def _on_count(self, line: bytes) -> None:
        self.rates = line
        if not _NO_INFO.search(line, 0, 200):
            self.count = line

    def _on_turn_started(self, line: bytes) -> None:
        self._end_turn("unknown")
        self.in_turn = True
        self.is_imported = b'"external-import-' in line

    def _end_turn(self, status: ToolStatus) -> None:
        if self.is_imported:
            self.imported = len(self.entries)
        self.is_imported = False
        self.log.settle(status)
        self.in_turn, self.turn_users = False, 0

    def _on_turn_complete(self, event: record.CodexEvent) -> None:
        self._end_turn("unknown")
        if isinstance(error := event.error, str):
            self._note_error(error)
        elif error:
            self._note_error(error.message, error.codex_error_info)

    def _on_turn_aborted(self, event: record.CodexEvent) -> None:
        self._end_turn("aborted")
        self.add_notice("interrupted", event.reason or "")

    def _on_error(self, event: record.CodexEvent) -> None:
        self._note_error(event.message or "", event.codex_error_info)

    def _note_error(self, text: str, info: msgspec.Raw = record.NO_ERROR_INFO) -> None:
        self.add_notice("error", text)
        code = record.find_error_code(info)
        resets = record.find_reset(self.rates)
        self.failure.note_error(text, self.at, len(self.entries), code=code, resets_at=resets)

    def _on_rolled_back(self, event: record.CodexEvent) -> None:
        """Drop the last turns, which the user took back; their numbers are not used again."""
        origins = ("typed", "plan", "handoff", "harness")
        said = (e.kind == "user" and e.origin in origins for e in self.entries)
        turns = [i for i, is_turn in enumerate(said) if is_turn and i not in self.left]
        if 0 < event.num_turns <= len(turns):
            self.left.update(range(turns[-event.num_turns], len(self.entries)))

    def _on_name(self, event: record.CodexEvent) -> None:
        self.name = event.thread_name or ""

    # -- other records -----------------------------------------------------------------

    def _on_meta(self, meta: record.CodexMeta) -> None:
        """Keep the first record of the file itself; copies of a parent's history bring their own."""
        if self.meta is None and self.source == 0:
            self.meta = meta

    def _on_context(self, line: bytes) -> None:
        self.context = line

    def _on_compacted(self, compacted: record.CodexCompaction) -> None:
        kept_messages = compacted.replacement_history or ()
        history = [jsonl.extract_text(message.content).strip() for message in kept_messages]
        own = (text for text in reversed(history) if SUMMARY_PREFACE.match(text))
        summary = compacted.message or next(own, "")
        text = SUMMARY_PREFACE.sub("", summary)
        kept = {words for t in history if t for words in (t, SpeakerGate().judge(t).text)}
        said = (e for e in self.entries if e.kind in ("user", "assistant"))
        listed = [f"#{e.ref}" for e in said if e.text in kept]
        ref = self.add_entry("compaction", text, "harness").ref
        if listed:
            kept_in_view = f"compaction #{ref} kept in view: {', '.join(listed)}"
            self.notices.append(Notice(after=ref, kind="note", text=kept_in_view))
        if not summary:
            self.lines.notes.append(f"the summary of the compaction #{ref} is encrypted")

    # -- the whole ---------------------------------------------------------------------

    def _build_thread(self) -> Thread:
        if self.meta is None and not self.entries:
            raise self.lines.build_error("complete line of a Codex thread", "conversation of Codex")
        meta = self.meta or record.CodexMeta()
        copied = len(self.entries) if self.is_imported else self.imported
        original = find_original(self.path, meta.id) if copied else ""
        self.is_alone = not (copied or self.missing)
        if original and copied < len(self.entries):
            self.left.update(range(copied))
        missing = [f"the parent thread {self.missing} was not found"] if self.missing else []
        context = record.decode_payload(record.CONTEXT, self.context)
        count = record.decode_payload(record.COUNT, self.count)
        info = (count.info if count else None) or record.CodexTokenInfo()
        git = meta.git or record.CodexGit()
        file_id = _FILE_ID.search(self.path.stem)
        began = next((entry.at for entry in self.entries if entry.at), "")
        agents = ((id, self.find(id)) for id in self.log.agents)
        return self.build_thread(
            meta.id or (file_id[1] if file_id else self.path.stem),
            cwd=meta.cwd,
            git_branch=git.branch or ("HEAD" if meta.git else ""),  # It is in a repository.
            git_head=git.commit_hash or "",
            model=meta.build_model_name(context.model) if context else "",
            thinking=record.find_thinking(context) if context else "",
            version=meta.cli_version,
            parent=original or meta.find_parent(),
            started=meta.timestamp or began,
            updated=self.stamp.decode(),
            context_tokens=info.last_token_usage.total_tokens if info.last_token_usage else None,
            context_window=info.model_context_window,
            sidechains=tuple(Sidechain(id=id, path=str(path)) for id, path in agents if path),
            sources=tuple(str(p) for p in self.files),
            report=replace(
                jsonl.merge_reports(
                    lines.build_report(missing if lines is self.lines else ())
                    for lines in self.passes
                ),
                lacks_beginning=bool(self.missing or (original and self.left)),
            ),
            documents=tuple(d for lines in self.passes for d in lines.gate.log.documents),
        )

    def choose_entries(self) -> list[Entry]:
        """Mark messages without an event as not typed, where the record has such events."""
        entries = list(self.entries)
        for index, text in self.unconfirmed.items() if self.confirmed else ():
            entry = entries[index]
            if entry.origin != "handoff" and text not in self.confirmed:
                entries[index] = replace(entry, origin="harness")
        return [entry for index, entry in enumerate(entries) if index not in self.left]
