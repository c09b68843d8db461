"""Rows of Claude Code's threads that hold what a user said, and what the program says beside it."""

import re
from itertools import chain
from typing import Any

from msgspec.structs import force_setattr as put

from tasuki.harness.claude import format as record
from tasuki.harness.claude.tool_calls import ClaudeCallLog
from tasuki.harness.claude.tree import ClaudeTree, hash_id
from tasuki.harness.reading.jsonl import ThreadLines, decode_part, extract_text
from tasuki.harness.reading.speakers import INTERRUPTED, is_inserted
from tasuki.harness.reading.threads import ThreadReader
from tasuki.model import Entry, Notice, ToolCall
from tasuki.patterns import compile_pattern

_COMMAND = compile_pattern(r"<command-name>/?([^<]*)</command-name>")
_COMMAND_ARGS = compile_pattern(r"<command-args>(.*?)</command-args>", re.DOTALL)
_ORDERING = ("init", "plan", "goal")
"""Built-in commands that are followed by what the user wants to be done."""
MAX_SETTING = 5
"""Words behind a command that are its arguments; more of them tell something."""
_PRINTED = ("<local-command-stdout>", "<local-command-stderr>")
_BASH_INPUT = compile_pattern(r"<bash-input>(.*?)</bash-input>\s*(?:<bash-|\Z)", re.DOTALL)
_BASH_OUTPUT = compile_pattern(r"</?bash-(?:stdout|stderr)>")
_BASH_OUTPUTS = ("<bash-stdout>", "<bash-stderr>")
_PLAN_SOURCE = compile_pattern(
    r"\s*If you need specific details from before exiting plan mode [^\n]*\bread the full transcript at: \S*?([0-9a-f-]{36})\.jsonl\s*\Z"
)
"""What Claude Code writes below a plan that begins a thread: where the plan was made."""
_DOCUMENTS = ("file", "nested_memory", "edited_text_file")
"""Attachments that hold one."""
_TASK = compile_pattern(r"<task-id>([^<]+)</task-id>")
_TASK_TOOL = compile_pattern(r"<tool-use-id>([^<]+)</tool-use-id>")
_TASK_STATUS = compile_pattern(r"<status>([^<]+)</status>")
_TASK_CODE = compile_pattern(
    r"exit code (?:(?<=\(exit code )|(?<=failed with exit code ))(-?\d{1,9})\b"
)
_HEAD_COMMIT = compile_pattern(r"Recent commits:\n([0-9a-f]{7,40}) ")
ALWAYS = -1
"""Node of entries without a tree line: it means the last line, which is active."""
_RECORDS_DELIVERY = (2, 1, 100)
"""Version from which on a queued prompt that was delivered has a row of its own."""


class ClaudeUserRows(ThreadReader):
    """What the rows of one file that are not the agent's add to its entries and notices."""

    harness = "claude"
    log: ClaudeCallLog

    def __init__(self, lines: ThreadLines, log: ClaudeCallLog) -> None:
        super().__init__(lines, log)
        self.entry_nodes = log.nodes
        self.tree = ClaudeTree()
        self.uuids = self.tree.uuids
        self.meta: dict[str, str] = {}
        self.queued: list[tuple[str, str]] = []
        self.marks_prompts = False
        """Its program marks what was typed: a text without a mark is not the user's."""
        self.unmarked = 0
        self.senders: dict[str, list[Entry]] = {}
        """The messages of chats, by who wrote them."""
        self.command: Entry | None = None
        """The last command with a slash."""
        self.kept: record.ClaudeSegment | None = None
        """What the compaction under way keeps in view."""
        self.user_command: Entry | None = None
        """A command that the user ran and whose output is still to come."""

    def add_entry(self, *parts: Any, node: int | None = None, message: str = "") -> Entry:
        self.node = len(self.uuids) - 1 if node is None else node
        self.log.messages.append(hash_id(message) if message else 0)
        return super().add_entry(*parts)

    def _on_user(self, line: record.ClaudeLine) -> None:
        content = line.message.content if line.message else None
        if line.isCompactSummary:
            kept, text = self._find_kept(), extract_text(content)
            put(self.add_entry("compaction", text, "harness"), "kept_from", kept)
            return
        if isinstance(content, str):
            self._add_user_text(line, content)
            return
        texts, answered = [], ""
        for block in content or ():
            if block.type == "tool_result":
                output = extract_text(block.content)
                self.log.add_result(block.tool_use_id, output, block.is_error, line, self.offset)
                answered = block.tool_use_id
            elif block.type == "text":
                texts.append(block.text)
            elif block.type in ("image", "document"):
                texts.append(f"[{block.type}]")
        for text in filter(is_inserted, texts):
            self.lines.gate.log.find(text)
        texts = [t for t in texts if not is_inserted(t)]
        if texts:
            self._add_user_text(line, "\n".join(texts), answered)

    def _find_kept(self) -> int:
        """Find the first entry that a compaction keeps in view; 0 for none."""
        kept, self.kept = self.kept, None
        head = hash_id(kept.headUuid) if kept else 0
        if not kept or head not in self.uuids:
            return 0
        first = self.uuids.index(head)
        placed = zip(self.entries, self.log.nodes, strict=True)
        return next((entry.ref for entry, node in placed if node >= first), 0)

    def _add_user_text(self, line: record.ClaudeLine, text: str, answered: str = "") -> None:
        """Add a text of user role: the user's, or one of the many that the program writes."""
        text = record.remove_paste_marks(text).strip()
        stop = INTERRUPTED.match(text)
        if stop:
            self.add_notice("interrupted", stop[0].strip())
            text = text[stop.end() :]
        if not text:
            return
        is_typed = record.find_evidence(line) == "user"
        if chat := record.read_channel_message(line.origin, text):
            entry = self.add_entry("user", chat.words, "channel")
            self.senders.setdefault(chat.sender, []).append(entry)
        elif line.isMeta:
            self.command = None
            self.lines.gate.log.find(text)
            self.add_notice("context", text)
        elif record.COMMAND.fullmatch(text) and (command := _COMMAND.search(text)):
            self._add_slash_command(command[1].strip(), text)
        elif match := _BASH_INPUT.match(text):
            call = ToolCall(id=self.id, name="!", kind="shell", command=match[1], status="ok")
            self.user_command = self.add_entry("tool", "", "command", call)
        elif text.startswith(_BASH_OUTPUTS):
            self._finish_user_command(text)
        elif text.startswith("<task-notification>") and not is_typed:
            self._end_task(text)
        elif is_inserted(text):
            if text.startswith(_PRINTED):
                self._take_back_command()
            self.add_notice("note", text)
        else:
            self._add_prompt(line, text, answered, is_marked=not (stop or answered))

    def _add_prompt(
        self, line: record.ClaudeLine, text: str, answered: str, *, is_marked: bool
    ) -> None:
        """Add a prompt; `answered` is the call whose result is in the same row.

        Beside a result, and behind an interruption, the program marks nothing.
        """
        evidence = record.find_evidence(line)
        self.marks_prompts |= evidence == "user" or bool(line.promptSource)
        is_marked = is_marked and line.promptSource != "sdk"
        if self.marks_prompts and is_marked and not evidence:
            self.unmarked += 1
            evidence = "program"
        queued = line.promptSource == "queued" or bool(answered)
        origin, words = self.lines.gate.judge(text, evidence, queued=queued)
        if source := _PLAN_SOURCE.search(words) if origin == "plan" else None:
            self.parent, words = source[1], words[: source.start()].rstrip()
        self.queued = [q for q in self.queued if q[0] != text]
        if answered:  # It is on the branch of that call.
            called, log = self.log.calls.get(answered), self.log
            index = called.ref - 1 if called else len(log.entries) - 1
            self.add_entry("user", words, origin, node=log.nodes[index] if index >= 0 else -1)
            log.messages[-1] = log.messages[index] if index >= 0 else 0
        else:
            if origin != "harness":
                self.tree.add_prompt()
            self.add_entry("user", words, origin)

    def _add_slash_command(self, name: str, text: str) -> None:
        args = _COMMAND_ARGS.search(text)
        words = args[1].strip() if args else ""
        if name not in _ORDERING:
            self.log.skills.append(name)
        self.tree.add_prompt()
        self.command = self.add_entry("user", f"/{name} {words}".strip())

    def _take_back_command(self) -> None:
        """Take the last command for one of the program itself, which printed something at once.

        The others are prompts: what they stand for comes next, in a row of its own.
        """
        log, command = self.log, self.command
        if command is None or not log.entries or log.entries[-1] is not command:
            return
        self.command = None
        name, _, words = command.text[1:].partition(" ")
        if name not in _ORDERING:
            log.skills.pop()
        is_told = name in _ORDERING or len(words.split()) > MAX_SETTING
        if not words or not is_told:
            self.tree.prompts.pop()
            for column in (log.entries, log.nodes, log.messages):
                column.pop()
            self.notices.append(Notice(len(log.entries), "note", command.text))

    def _finish_user_command(self, text: str) -> None:
        if self.user_command is not None and (call := self.user_command.tool):
            self.log.put_result(self.user_command, _BASH_OUTPUT.sub("", text), error=False)
            put(call, "status", "unknown")  # Its exit code is not recorded.
            put(call, "exit_code", None)
        self.user_command = None

    def _end_task(self, text: str) -> None:
        status = _TASK_STATUS.search(text)
        failed = bool(status and status[1] not in ("completed", "success"))
        code = _TASK_CODE.search(text)
        for pattern in (_TASK, _TASK_TOOL) if status else ():
            if match := pattern.search(text):
                self.log.background.record_end(
                    match[1].strip(), failed, int(code[1]) if code else None
                )
        self.add_notice("note", text)

    def _on_system(self, line: record.ClaudeLine) -> None:
        if line.subtype == "local_command":
            self._take_back_command()
        elif line.subtype == "compact_boundary" and line.compactMetadata:
            self.kept = line.compactMetadata.preservedSegment
        elif line.subtype == "api_error":
            self.add_notice("error", record.decode_text(line.content))

    def _on_attachment(self, line: record.ClaudeLine) -> None:
        attachment = line.attachment
        if attachment is None:
            return
        if attachment.type == "queued_command":
            text = record.remove_paste_marks(record.decode_text(attachment.prompt))
            if text.startswith("<task-notification>"):
                self._end_task(text)
            elif text:
                self.queued = [q for q in self.queued if q[0] != text]
                evidence = record.find_queued_evidence(attachment)
                origin, words = self.lines.gate.judge(text, evidence, queued=True)
                self.add_entry("user", words, origin)
        elif attachment.type == "session_context":
            shown = bytes(attachment.context).decode("utf-8", "replace").replace("\\n", "\n")
            if match := _HEAD_COMMIT.search(shown):
                self.meta["head"] = match[1]
        elif attachment.planFilePath:
            self.log.artifacts[attachment.planFilePath] = None
            self.lines.gate.log.add(attachment.planFilePath, attachment.planContent)
        elif attachment.type in _DOCUMENTS:
            self._keep_document(attachment)

    def _keep_document(self, attachment: record.ClaudeAttachment) -> None:
        """Keep a memory, or a file that was attached or that somebody changed meanwhile."""
        file = decode_part(record.FILE, attachment.content, None)
        file = file or record.ClaudeFile(content=record.decode_text(attachment.content))
        file = file.file or file
        path = attachment.filename or file.filePath or file.path or attachment.path
        self.lines.gate.log.add(path, attachment.snippet or file.content)

    def _on_queue_operation(self, line: record.ClaudeLine) -> None:
        """Track words typed while the agent worked.

        Before 2.1.100 `remove` is the only record that they went into the turn; since then
        they have a row of their own, and what was removed without one was taken back.
        """
        text = record.remove_paste_marks(record.decode_text(line.content)).strip()
        if line.operation == "enqueue" and text:
            if text.startswith("<task-notification>"):
                self._end_task(text)
            else:
                self.queued.append((text, line.timestamp))
        elif line.operation == "popAll":
            self.queued.clear()
        elif line.operation == "remove" and self.queued:
            text, timestamp = self.queued.pop(0)
            version = record.parse_version(self.version) or _RECORDS_DELIVERY
            if not text.startswith("/") and version < _RECORDS_DELIVERY:
                self.at = line.timestamp or timestamp
                origin, words = self.lines.gate.judge(text, queued=True)
                self.add_entry("user", words, origin, node=ALWAYS)
        elif line.operation == "dequeue" and self.queued:
            self.queued.pop(0)

    def _settle_senders(self) -> None:
        """Take no message of a chat for the user's where several people write in it."""
        if len(self.senders) > 1:
            for entry in chain.from_iterable(self.senders.values()):
                put(entry, "origin", "harness")
