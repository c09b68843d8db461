"""Read threads of Claude Code (2.0 and 2.1): one JSON object a line, linked into a tree."""

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import force_setattr as put
from msgspec.structs import replace

from tasuki.harness.claude.format import (
    FILE,
    HARNESS_TAGS,
    INPUT,
    LEFT_RESULTS,
    LINE,
    NO_COPY,
    REPLY,
    RESULTS,
    SKIPPED,
    ClaudeAttachment,
    ClaudeBlock,
    ClaudeFile,
    ClaudeInput,
    ClaudeLine,
    ClaudeReplyLine,
    ClaudeResultLine,
    ClaudeSegment,
    ClaudeUsage,
    count_context_tokens,
    decode_text,
    extract_text,
    find_error_code,
    find_evidence,
    find_queued_evidence,
    find_quota_reset,
    parse_version,
    read_channel_message,
    read_copied_facts,
    remove_paste_marks,
)
from tasuki.harness.claude.tool_calls import ClaudeCallLog
from tasuki.harness.claude.tree import BEGINNING, ClaudeTree, has_only_link, list_sidechains
from tasuki.harness.reading.jsonl import UNDECODABLE, ThreadLines, decode_nested
from tasuki.harness.reading.records import may_be_damaged
from tasuki.harness.reading.speakers import INTERRUPTED, Evidence, is_inserted
from tasuki.harness.reading.usage_limits import LimitRecord
from tasuki.model import Entry, EntryKind, Notice, Origin, Thread, ToolCall
from tasuki.patterns import compile_pattern

NoticeKind = Literal["interrupted", "error", "context", "note"]
NO_INPUT = ClaudeInput()

_SKIM_TYPE = compile_pattern(rb'\A\{"type": ?"([a-z-]+)"')
_SKIPPED_BYTES = frozenset(name.encode() for name in SKIPPED)
_TYPE = b'"type":"'
_RESULT = b',"toolUseResult":'
_COPY_KEYS = (b'"toolDenialKind"', b'"backgroundTaskId"', b'"answers"')
_CONTENT_KEY, _TEXT_KEY = b'"content":[{', b'"content":"'
_SPECIAL = (b'"Async agent launched', b'"Command running in background', b'"\\')
"""Beginnings of results that are read at once; what begins with an escape may be one of them."""
_COMMAND = compile_pattern(r"<command-name>/?([^<]*)</command-name>")
_COMMAND_ARGS = compile_pattern(r"<command-args>(.*?)</command-args>", re.DOTALL)
_IS_COMMAND = compile_pattern(
    r"(?:\s*<command-(name|message|args|contents)>.*?</command-\1>)+\s*", re.DOTALL
)
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
_HEAD_COMMIT = compile_pattern(r"Recent commits:\n([0-9a-f]{7,40}) ")
ALWAYS = -1
"""Node of entries without a tree line: it means the last line, which is active."""
_RECORDS_DELIVERY = (2, 1, 100)
"""Version from which on a queued prompt that was delivered has a row of its own."""
_UNMARKED = "message(s) without a mark of who wrote them are not taken for the user's words"


class ClaudeReader:
    """One pass over one file; with `follows` one more for what was appended.

    A fast path each reads lines of the three kinds that are most of a thread. What it refuses,
    and all other lines, are decoded as a whole.
    """

    def __init__(self, path: Path, *, leaves_outputs: bool = False, follows: bool = False) -> None:
        self.lines = ThreadLines(path, follows=follows)
        self.log = ClaudeCallLog(path, leaves_outputs=leaves_outputs)
        self.tree = ClaudeTree()
        self.uuids, self.jumps = self.tree.uuids, self.tree.jumps
        self.ready = False
        """The first lines are decoded as a whole until id and folder are known."""
        self.notices: list[Notice] = []
        self.queued: list[tuple[str, str]] = []
        self.marks_prompts = False
        """Its program marks what was typed: a text without a mark is not the user's."""
        self.unmarked = 0
        self.senders: dict[str, list[Entry]] = {}
        """The messages of chats, by who wrote them."""
        self.command: Entry | None = None
        """The last command with a slash."""
        self.kept: ClaudeSegment | None = None
        """What the compaction under way keeps in view."""
        self.user_command: Entry | None = None
        """A command that the user ran and whose output is still to come."""
        self.meta: dict[str, str] = {}
        self.branch = self.version = self.updated = self.parent = ""
        self.model = ""
        self.usage: ClaudeUsage | None = None
        self.limit = LimitRecord()
        self.summaries: list[tuple[str, str]] = []
        self.offset = 0
        self.fast_paths: dict[bytes, Callable[[bytes], bool]] = {
            b"assistant": self._read_reply_line,
            b'message",': self._read_reply_line,
            b'user","me': self._leave_result_line if leaves_outputs else self._read_result_line,
            b'progress"': self.tree.read_link_line,
        }
        """The key is the first type that a line names: its own, or that of its message."""
        self.handlers: dict[str, Callable[[ClaudeLine], None]] = {
            "assistant": self._on_assistant,
            "user": self._on_user,
            "system": self._on_system,
            "attachment": self._on_attachment,
            "queue-operation": self._on_queue_operation,
            "custom-title": self._on_title,
            "ai-title": self._on_title,
            "summary": self._on_summary,
        }

    def read(self) -> Thread:
        fast_paths, lines = self.fast_paths, self.lines
        for offset, line in lines:
            self.offset = offset
            start = line.find(_TYPE) + 8
            fast_path = fast_paths.get(line[start : start + 9])
            if fast_path is None or lines.is_recovered or not fast_path(line):
                self._take_line(line)
        thread = self._build_thread()
        if not lines.follows:
            # Their methods hold the reader, which else would stay until the next search for cycles.
            fast_paths.clear()
            self.handlers.clear()
        return thread

    def is_continued(self) -> bool:
        return self.lines.is_continued()

    # -- the fast paths: True if they read the line ------------------------------------

    def _read_reply_line(self, line: bytes) -> bool:
        try:
            parsed = REPLY.decode(line)
        except UNDECODABLE:
            return False
        if parsed.isApiErrorMessage or parsed.isSidechain or not self.ready:
            return False
        uuids, message = self.uuids, parsed.message
        if hash(parsed.parentUuid) != uuids[-1]:
            if parsed.timestamp <= self.updated and self.tree.is_repeated(parsed.uuid):
                return True
            self.jumps[len(uuids)] = hash(parsed.parentUuid)
        uuids.append(hash(parsed.uuid))
        content = message.content
        if len(content) == 1 and content[0].type == "thinking":
            return True  # Like progress, it shows nothing but its place.
        self.updated = parsed.timestamp or self.updated
        if parsed.gitBranch:
            self.branch = parsed.gitBranch
        if parsed.version:
            self.version = parsed.version
        self._record_reply(message.model, message.usage)
        log, offset = self.log, self.offset
        for block in content:
            if block.type == "tool_use":
                arguments = block.input or NO_INPUT
                log.add_call(
                    block.id, block.name, arguments, parsed, offset, len(uuids) - 1, message.id
                )
            elif block.type == "text" and block.text.strip():
                log.add_reply(parsed, block.text, offset, len(uuids) - 1, message.id)
        return True

    def _read_result_line(self, line: bytes) -> bool:
        """Read a line of results alone.

        Their copy for the screen, which follows them, is not decoded.
        """
        cut = self._find_copy(line, _RESULT)
        try:
            parsed = RESULTS.decode(line[:cut] + b"}" if cut > 0 else line)
        except UNDECODABLE:
            return False
        if parsed.isSidechain or not self.ready:
            return False
        uuids = self.uuids
        if hash(parsed.parentUuid) != uuids[-1]:
            if parsed.timestamp <= self.updated and self.tree.is_repeated(parsed.uuid):
                return True
            self.jumps[len(uuids)] = hash(parsed.parentUuid)
        uuids.append(hash(parsed.uuid))
        self.updated = parsed.timestamp or self.updated
        if parsed.gitBranch:
            self.branch = parsed.gitBranch
        if parsed.version:
            self.version = parsed.version
        for block in parsed.message.content:
            output = block.content
            if output.__class__ is not str:
                output = extract_text(output)
            self.log.add_result(block.tool_use_id, output, block.is_error, parsed, self.offset)
        return True

    def _leave_result_line(self, line: bytes) -> bool:
        """Read a line of results, and leave the text of a single one in the file."""
        cut = self._find_copy(line, _RESULT)
        try:
            parsed = LEFT_RESULTS.decode(line[:cut] + b"}" if cut > 0 else line)
        except UNDECODABLE:
            return False
        blocks = parsed.message.content
        if parsed.isSidechain or not self.ready or len(blocks) != 1:
            return self._read_result_line(line)
        block = blocks[0]
        size = len(memoryview(block.content))
        start = line.find(_TEXT_KEY, line.find(_CONTENT_KEY)) + len(_TEXT_KEY) - 1
        if (
            block.is_error
            or self.log.copied.job
            or size <= 2
            or not line.startswith(bytes(block.content), start)  # It is elsewhere, or no text.
            or line.startswith(_SPECIAL, start)
            or not self.log.leave_unread(block.tool_use_id, self.offset + start, size)
        ):
            return self._read_result_line(line)
        self.tree.add_line(parsed.uuid, parsed.parentUuid)
        self._record_state(parsed)
        return True

    def _find_copy(self, line: bytes, mark: bytes) -> int:
        """Find where the copy of a result for the screen begins; note what it alone says of the call.

        0 where another row may begin in the line: then it is decoded as a whole.
        """
        cut = line.find(mark)
        if cut > 0 and may_be_damaged(line, BEGINNING, cut):
            cut = 0
        has_facts = any(line.find(key, max(cut, 0)) > 0 for key in _COPY_KEYS)
        self.log.copied = read_copied_facts(line) if has_facts else NO_COPY
        return cut

    def _record_state(self, line: ClaudeReplyLine | ClaudeResultLine[Any] | ClaudeLine) -> None:
        """Keep what shows the state at the end."""
        self.updated = line.timestamp or self.updated
        self.branch = line.gitBranch or self.branch
        self.version = line.version or self.version

    def _record_reply(self, model: str, usage: ClaudeUsage | None) -> None:
        if model and model != "<synthetic>":
            self.model = model
            self.usage = usage or self.usage

    # -- any line ----------------------------------------------------------------------

    def _take_line(self, text: bytes) -> None:
        line = self._parse_line(text)
        if line is None or line.isSidechain:
            return
        if line.uuid:
            parent = line.parentUuid or line.logicalParentUuid
            is_older = line.timestamp <= self.updated and not self.tree.follows(parent)
            if is_older and self.tree.is_repeated(line.uuid):
                return
            self.tree.add_line(line.uuid, parent)
            self._record_meta(line)
        if (handler := self.handlers.get(line.type)) is not None:
            handler(line)
        elif line.type not in SKIPPED:
            self.lines.count_unknown(line.type, has_words=line.message)

    def _parse_line(self, line: bytes) -> ClaudeLine | None:
        """Parse one line; None if it contributes nothing or is broken."""
        is_single = not may_be_damaged(line, BEGINNING)
        if line.startswith(b'{"type"'):
            if is_single and (skim := _SKIM_TYPE.match(line)) and skim[1] in _SKIPPED_BYTES:
                return None
        elif is_single and has_only_link(line) and self.tree.read_link_ends(line):
            return None
        try:
            if (cut := self._find_copy(line, b'"toolUseResult":')) > 0:
                parsed = LINE.decode(line[:cut].rstrip(b", ") + b"}")
                if parsed.uuid:
                    return parsed
            return LINE.decode(line)
        except UNDECODABLE:
            return self.lines.decode(LINE, line)

    def _record_meta(self, line: ClaudeLine) -> None:
        """Keep what the head of the thread needs: mostly the first line and the last."""
        if "id" not in self.meta:
            self.meta["started"] = line.timestamp
            self.meta["id"] = line.sessionId
        if line.cwd and "cwd" not in self.meta:
            self.meta["cwd"] = line.cwd
            self.ready = True
        self._record_state(line)
        if line.thinkingMetadata and line.thinkingMetadata.level:
            self.meta["thinking"] = line.thinkingMetadata.level

    def _build_entry(
        self,
        kind: EntryKind,
        line: ClaudeLine,
        text: str = "",
        origin: Origin = "typed",
        tool: ToolCall | None = None,
    ) -> Entry:
        ref = len(self.log.entries) + 1
        return Entry(ref, kind, text, line.timestamp, line.uuid, origin, tool, offset=self.offset)

    def _add_entry(self, entry: Entry, message: str = "") -> None:
        self.log.add_entry(entry, len(self.uuids) - 1, message)

    def _add_notice(self, kind: NoticeKind, text: str) -> None:
        self.notices.append(Notice(len(self.log.entries), kind, text))

    # -- lines by type -----------------------------------------------------------------

    def _on_assistant(self, line: ClaudeLine) -> None:
        message = line.message
        if message is None:
            return
        if line.isApiErrorMessage:
            text = extract_text(message.content)
            self._add_notice("error", text)
            self.limit.note_error(
                text,
                line.timestamp,
                len(self.log.entries),
                code=find_error_code(line),
                resets_at=find_quota_reset(line),
            )
            return
        self._record_reply(message.model, message.usage)
        blocks = message.content
        if isinstance(blocks, str):
            blocks = [ClaudeBlock(type="text", text=blocks)]
        for block in blocks or ():
            if block.type == "text" and block.text.strip():
                self._add_entry(self._build_entry("assistant", line, block.text), message.id)
            elif block.type == "tool_use":
                self._add_call(line, block, message.id)

    def _add_call(self, line: ClaudeLine, block: ClaudeBlock, message: str) -> None:
        try:
            arguments = decode_nested(INPUT, block.input)
        except UNDECODABLE:
            arguments = NO_INPUT
        node = len(self.uuids) - 1
        self.log.add_call(block.id, block.name, arguments, line, self.offset, node, message)

    def _on_user(self, line: ClaudeLine) -> None:
        content = line.message.content if line.message else None
        if line.isCompactSummary:
            entry = self._build_entry("compaction", line, extract_text(content), "harness")
            self._add_entry(replace(entry, kept_from=self._find_kept()))
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
        uuids, head = self.uuids, hash(kept.headUuid) if kept else 0
        first = uuids.index(head) if kept and head in uuids else len(uuids)
        placed = zip(self.log.entries, self.log.nodes, strict=True)
        return next((entry.ref for entry, node in placed if node >= first), 0)

    def _add_user_text(self, line: ClaudeLine, text: str, answered: str = "") -> None:
        """Add a text of user role: the user's, or one of the many that the program writes."""
        text = remove_paste_marks(text).strip()
        stop = INTERRUPTED.match(text)
        if stop:
            self._add_notice("interrupted", stop[0].strip())
            text = text[stop.end() :]
        if not text:
            return
        is_typed = find_evidence(line) == "user"
        if chat := read_channel_message(line.origin, text):
            entry = self._build_entry("user", line, chat.words, "channel")
            self.senders.setdefault(chat.sender, []).append(entry)
            self._add_entry(entry)
        elif line.isMeta:
            self.command = None
            self.lines.gate.log.find(text)
            self._add_notice("context", text[:300])
        elif _IS_COMMAND.fullmatch(text) and (command := _COMMAND.search(text)):
            self._add_slash_command(line, command[1].strip(), text)
        elif match := _BASH_INPUT.match(text):
            self._add_user_command(line, match[1])
        elif text.startswith(_BASH_OUTPUTS):
            self._finish_user_command(text)
        elif text.startswith("<task-notification>") and not is_typed:
            self._end_task(text)
        elif text.startswith(HARNESS_TAGS) and not is_typed:
            if text.startswith(_PRINTED):
                self._take_back_command()
            self._add_notice("note", text[:300])
        else:
            self._add_prompt(line, text, answered, is_marked=not (stop or answered))

    def _add_prompt(self, line: ClaudeLine, text: str, answered: str, *, is_marked: bool) -> None:
        """Add a prompt; `answered` is the call whose result is in the same row.

        Beside a result, and behind an interruption, the program marks nothing.
        """
        evidence = find_evidence(line)
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
        entry = self._build_entry("user", line, words, origin)
        if answered:
            self.log.add_beside(entry, answered)
        else:
            if origin != "harness":
                self.tree.prompts.append(len(self.uuids) - 1)
            self._add_entry(entry)

    def _add_slash_command(self, line: ClaudeLine, name: str, text: str) -> None:
        args = _COMMAND_ARGS.search(text)
        words = args[1].strip() if args else ""
        self.command = self._build_entry("user", line, f"/{name} {words}".strip())
        if name not in _ORDERING:
            self.log.skills.append(name)
        self.tree.prompts.append(len(self.uuids) - 1)
        self._add_entry(self.command)

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
            self._add_notice("note", command.text)

    def _add_user_command(self, line: ClaudeLine, command: str) -> None:
        call = ToolCall(id=line.uuid, name="!", kind="shell", command=command, status="ok")
        self.user_command = self._build_entry("tool", line, origin="command", tool=call)
        self._add_entry(self.user_command)

    def _finish_user_command(self, text: str) -> None:
        if self.user_command is not None and (call := self.user_command.tool):
            self.log.finish(self.user_command, _BASH_OUTPUT.sub("", text), error=False)
            put(call, "status", "unknown")  # Its exit code is not recorded.
            put(call, "exit_code", None)
        self.user_command = None

    def _end_task(self, text: str) -> None:
        status = _TASK_STATUS.search(text)
        failed = bool(status and status[1] not in ("completed", "success"))
        for pattern in (_TASK, _TASK_TOOL):
            if status and (match := pattern.search(text)):
                self.log.background.record_end(match[1].strip(), failed=failed)
        self._add_notice("note", text[:300])

    def _on_system(self, line: ClaudeLine) -> None:
        if line.subtype == "local_command":
            self._take_back_command()
        elif line.subtype == "compact_boundary" and line.compactMetadata:
            self.kept = line.compactMetadata.preservedSegment
        elif line.subtype == "api_error":
            self._add_notice("error", decode_text(line.content)[:300])

    def _on_attachment(self, line: ClaudeLine) -> None:
        attachment = line.attachment
        if attachment is None:
            return
        if attachment.type == "queued_command":
            text = remove_paste_marks(decode_text(attachment.prompt))
            if text.startswith("<task-notification>"):
                self._end_task(text)
            elif text:
                self._add_queued_prompt(line, text, find_queued_evidence(attachment))
        elif attachment.type == "session_context":
            if match := _HEAD_COMMIT.search(
                bytes(attachment.context).decode("utf-8", "replace").replace("\\n", "\n")
            ):
                self.meta["head"] = match[1]
        elif attachment.planFilePath:
            self.log.artifacts[attachment.planFilePath] = None
            self.lines.gate.log.add(attachment.planFilePath, attachment.planContent)
        elif attachment.type in _DOCUMENTS:
            self._keep_document(attachment)

    def _keep_document(self, attachment: ClaudeAttachment) -> None:
        """Keep a memory, or a file that was attached or that somebody changed meanwhile."""
        try:
            file = decode_nested(FILE, attachment.content)
        except UNDECODABLE:
            file = ClaudeFile(content=decode_text(attachment.content))
        file = file.file or file
        path = attachment.filename or file.filePath or file.path or attachment.path
        self.lines.gate.log.add(path, attachment.snippet or file.content)

    def _add_queued_prompt(self, line: ClaudeLine, text: str, evidence: Evidence) -> None:
        self.queued = [q for q in self.queued if q[0] != text]
        origin, words = self.lines.gate.judge(text, evidence, queued=True)
        self._add_entry(self._build_entry("user", line, words, origin))

    def _on_queue_operation(self, line: ClaudeLine) -> None:
        """Track words typed while the agent worked.

        Before 2.1.100 `remove` is the only record that they went into the turn; since then
        they have a row of their own, and what was removed without one was taken back.
        """
        text = remove_paste_marks(decode_text(line.content)).strip()
        if line.operation == "enqueue" and text:
            if text.startswith("<task-notification>"):
                self._end_task(text)
            else:
                self.queued.append((text, line.timestamp))
        elif line.operation == "popAll":
            self.queued.clear()
        elif line.operation == "remove" and self.queued:
            text, timestamp = self.queued.pop(0)
            version = parse_version(self.version) or _RECORDS_DELIVERY
            if not text.startswith("/") and version < _RECORDS_DELIVERY:
                line.timestamp = line.timestamp or timestamp
                origin, words = self.lines.gate.judge(text, queued=True)
                self.log.add_entry(self._build_entry("user", line, words, origin), ALWAYS)
        elif line.operation == "dequeue" and self.queued:
            self.queued.pop(0)

    def _on_title(self, line: ClaudeLine) -> None:
        own = line.type == "custom-title"
        self.meta["title" if own else "ai_title"] = line.customTitle if own else line.aiTitle

    def _on_summary(self, line: ClaudeLine) -> None:
        self.summaries.append((line.leafUuid or "", line.summary))

    def _find_summary(self) -> str:
        """Find the newest summary of this thread.

        Files also begin with summaries of other threads of the folder.
        """
        uuids = set(self.tree.uuids) if self.summaries else set()
        own = (text for leaf, text in reversed(self.summaries) if not leaf or hash(leaf) in uuids)
        return next(own, "")

    # -- the whole ---------------------------------------------------------------------

    def _settle_senders(self) -> None:
        """Take no message of a chat for the user's where several people write in it."""
        if len(self.senders) > 1:
            for entry in chain.from_iterable(self.senders.values()):
                put(entry, "origin", "harness")

    def _build_thread(self) -> Thread:
        path, meta, log = self.lines.path, self.meta, self.log
        if "id" not in meta:
            raise self.lines.build_error(
                "complete line of a Claude Code thread", "conversation of Claude Code"
            )
        entries = log.select_branch(self.tree.find_branch())
        self._settle_senders()
        notes = [f"{len(self.queued)} queued message(s) never sent"] if self.queued else []
        notes += [f"{self.unmarked} {_UNMARKED}"] if self.unmarked else []
        usage = self.usage
        return Thread(
            harness="claude",
            id=path.stem if len(path.stem) == 36 else meta["id"],
            path=str(path),
            cwd=meta.get("cwd", ""),
            git_branch=self.branch,
            git_head=meta.get("head", ""),
            model=self.model,
            thinking=meta.get("thinking", ""),
            version=self.version,
            tools=tuple(log.kinds),
            parent=self.parent,
            name=meta.get("title") or meta.get("ai_title") or self._find_summary(),
            started=meta["started"],
            updated=self.updated,
            context_tokens=count_context_tokens(usage) if usage else None,
            entries=entries,
            notices=tuple(self.notices),
            background=log.background.list_items(),
            sidechains=list_sidechains(path),
            artifacts=tuple(log.artifacts),
            skills=tuple(log.skills),
            aborted=bool(self.notices)
            and self.notices[-1].kind == "interrupted"
            and self.notices[-1].after == len(log.entries),
            abandoned=len(log.entries) - len(entries),
            sources=(str(path),),
            documents=tuple(self.lines.gate.log.documents),
            report=replace(
                self.lines.build_report(notes), lacks_beginning=self.tree.lacks_beginning()
            ),
            limit=self.limit.choose(entries),
        )
