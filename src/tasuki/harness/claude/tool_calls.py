"""Entries of a Claude Code thread; results are joined to the tool calls they belong to."""

import re
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import force_setattr as put
from msgspec.structs import replace

from tasuki.harness.claude import format as record
from tasuki.harness.claude.tree import hash_id
from tasuki.harness.reading.answers import OfferedQuestion, format_answers
from tasuki.harness.reading.jsonl import choose_keep_limit, clip_far, find_far_offset
from tasuki.harness.reading.unread import OutputFile, UnreadToolCall, put_output, read_both
from tasuki.harness.tool_table import tools
from tasuki.harness.tool_table.calls import LAUNCHED, CallLog
from tasuki.harness.tool_table.results import parse_exit_code
from tasuki.model import Entry, EntryKind, Origin, ToolCall, ToolStatus
from tasuki.patterns import compile_pattern

_JOB = compile_pattern(
    r"(?:running in background with ID: |launched in background\. Task ID: |agentId: ?|started \(task )([\w-]+)"
)
_REFUSED = ("The user doesn't want", "Request interrupted")
_BY_USER = ("", "user-rejected", "interrupted", "cancelled")
"""What a row says of a call that the user did not let begin; older versions say nothing."""
_SAID = compile_pattern(r"(?:the user said|provided the following reason[^:]*):\s*(.+)", re.DOTALL)
_CLARIFIES = "The user wants to clarify these questions"
"""Words of the program, after which it repeats the questions."""
_RESPONDED = "The user responded: "
_NOTES_ONLY = "(notes only)"
"""The answer of a user who chose nothing, as the program records it."""
_NOTE = compile_pattern(r'(?:"|\(no option selected\))? (?:user )?notes: ')
_AFTER_ANSWERS = compile_pattern(
    r"\. (?:You can now continue|Read the answers carefully|They also wrote: |Call \w+ again)"
)
_MOVED = compile_pattern(
    r"(?m)Command (?<=^Command )[^\n]{0,160}\bbackground(?:ed)?\b[^\n]{0,80}\bID: ?([\w-]+)"
)
"""What a result says of a command that goes on in the background, perhaps behind what it printed."""
_ANSWERS = ("ask", "plan")
"""Kinds of calls whose results hold words of the user, or the path of a plan."""
_OWN = frozenset(
    "Bash PowerShell Read Write Edit MultiEdit NotebookEdit Grep Glob LS WebFetch WebSearch Skill".split()
)
"""Tools of which a result that is no error says that the call went well."""
_NEEDED = (*_ANSWERS, "todo", "agent", "background")
"""Kinds of calls whose results are read at once."""
_PERSISTED = compile_pattern(
    r"\A<persisted-output>\nOutput too large[^\n]*saved to: (?:[^\n]*[/\\])?([^/\\\n]+\.(?:txt|json))\n"
)
_PLAN_FILE = compile_pattern(r"plan has been saved to: (\S+)")

ResultLine = record.ClaudeLine | record.ClaudeResultLine
AnyLine = ResultLine | record.ClaudeReplyLine


class ClaudeCallLog(CallLog):
    """The entries, each with its node of the tree and its message."""

    def __init__(self, path: Path, *, leaves_outputs: bool = False) -> None:
        super().__init__(choose_keep_limit(path))
        self.nodes = array("q")
        self.messages = array("q")
        """The hash of the id of the message that an entry is a part of, 0 for none."""
        self.artifacts: dict[str, None] = {}
        self._far = find_far_offset(path)
        self.copied = record.NO_COPY
        """What the row that is read says of its results besides their text."""
        self._build: Callable[..., ToolCall] = ToolCall
        if leaves_outputs:
            self._build = partial(UnreadToolCall, file=OutputFile(path, self.keep))
        self._outputs = path.with_suffix("") / "tool-results"
        self._early: dict[str, tuple[str, bool | None, ResultLine, record.CopiedFacts]] = {}
        self.persisted: dict[str, None] = {}
        """The files beside the thread that hold long outputs."""
        self.lacking: dict[str, None] = {}
        """Those that are not there, and may come back."""
        self._paths: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Paths of calls: the same file is named again and again."""

    def add_entry(
        self, kind: EntryKind, text: str, line: AnyLine, offset: int, node: int, message: str = "",
        tool: ToolCall | None = None, origin: Origin = "typed",
    ) -> Entry:  # fmt: skip
        """Add one more entry, of a line that begins at `offset`."""
        ref, at = len(self.entries) + 1, line.timestamp
        entry = Entry(ref, kind, text, at, line.uuid, origin, tool, offset=offset)
        self.entries.append(entry)
        self.nodes.append(node)
        self.messages.append(hash_id(message) if message else 0)
        return entry

    def add_call(
        self,
        id: str,
        name: str,
        arguments: tools.ToolInput,
        line: AnyLine,
        offset: int,
        node: int,
        message: str,
    ) -> None:
        """Add a call; its result may come later, or may have come before it."""
        call = tools.build_tool_call(id, name, arguments, build=self._build)
        if call.changes and offset < self._far:
            short = (replace(c, old=clip_far(c.old), new=clip_far(c.new)) for c in call.changes)
            put(call, "changes", tuple(short))
        if call.paths:
            put(call, "paths", self._paths.setdefault(call.paths, call.paths))
        entry = self.calls[id] = self.add_entry("tool", "", line, offset, node, message, call)
        self.note_call(call, arguments, entry.ref)
        if arguments.get("background") is True:
            put(call, "background", id)
        if self._early and id in self._early:
            output, error, early, copied = self._early.pop(id)
            now, self.copied = self.copied, copied
            self.add_result(id, output, error, early, offset)
            self.copied = now

    def add_result(
        self, id: str, output: str, error: bool | None, line: ResultLine, offset: int
    ) -> None:
        """Add the result of a call, perhaps before the call."""
        entry = self.calls.get(id)
        if entry is None:
            self._early[id] = (output, error, line, self.copied)
            return
        self.put_result(entry, output, error, self.copied)
        call = entry.tool
        if call and (call.kind in _ANSWERS or call.status == "refused"):
            self._add_answer(entry, call, output, line, offset)

    def put_result(
        self,
        entry: Entry,
        output: str,
        error: bool | None,
        copied: record.CopiedFacts = record.NO_COPY,
    ) -> None:
        """Put a result into the entry of its call."""
        call = entry.tool
        if call is None:
            return
        if output.startswith("<persisted-output>"):
            output = self._read_persisted(output)
        is_shell, job = call.kind == "shell", ""
        status, code, output = self.judge(call, output, "ok", 0 if is_shell else None)
        if is_shell:
            job = copied.find_job() or (moved[1] if (moved := _MOVED.search(output)) else "")
        if error or call.kind == "agent" or job or output.startswith(LAUNCHED):
            status, code = self._find_outcome(entry, call, output, bool(error), copied, job)
        put_output(call, output, self.keep, is_far=entry.offset < self._far and not error)
        put(call, "status", status)
        put(call, "exit_code", code)
        if call.kind != "agent":
            self.note_result(call, output)

    def _read_persisted(self, output: str) -> str:
        """Read an output that the program saved in a file of the thread; the preview where it is gone."""
        if (named := _PERSISTED.match(output)) and (text := read_both(self._outputs / named[1])):
            self.persisted[str(self._outputs / named[1])] = None
            return text
        if named:
            self.lacking[str(self._outputs / named[1])] = None
        return output

    def leave_unread(self, id: str, start: int, size: int) -> bool:
        """Note where the result of a call is that went well; False if its words are needed now."""
        entry = self.calls.get(id)
        call = entry.tool if entry else None
        if entry is None or not isinstance(call, UnreadToolCall):
            return False
        is_shell = call.kind == "shell"
        if call.kind in _NEEDED or call.name not in _OWN or (is_shell and self.copied.find_job()):
            return False
        call.leave_output(start, size, is_far=entry.offset < self._far)
        put(call, "status", "ok")
        if is_shell:
            put(call, "exit_code", 0)
        return True

    def _find_outcome(
        self,
        entry: Entry,
        call: ToolCall,
        output: str,
        failed: bool,
        row: record.CopiedFacts,
        job: str,
    ) -> tuple[ToolStatus, int | None]:
        """Return status and exit code of a call that failed, began a job or is a sub-agent."""
        status, code = _read_failure(call, output, row) if failed else ("ok", None)
        if not job and output.startswith(LAUNCHED) and (started := _JOB.search(output)):
            job = started[1]
        if job:
            if call.kind == "agent":
                self.background.add_alias(call.id, job)
            else:
                self.background.record_start(job, call.kind, call.command, entry.ref, call)
            put(call, "background", job)
            if call.kind != "agent":
                return "running", code
        elif call.kind == "agent":
            self.background.record_end(call.id, failed)
        return status, 0 if status == "ok" and call.kind == "shell" else code

    def select_branch(self, active: bytearray) -> list[Entry]:
        """Return the entries whose node is active, or a part of whose message is."""
        entries = self.entries
        if 0 in active:
            messages = {
                m for n, m in zip(self.nodes, self.messages, strict=True) if m and active[n]
            }
            placed = zip(entries, self.nodes, self.messages, strict=True)
            entries = [e for e, n, m in placed if active[n] or m in messages]
        return entries

    def _add_answer(
        self, entry: Entry, call: ToolCall, output: str, line: ResultLine, offset: int
    ) -> None:
        """Add the user's own words inside a result."""
        words = ""
        if call.kind == "ask" and call.status == "ok" and tools.is_own_tool(call.name):
            questions = self.questions.get(call.id, ())
            words = _list_answers(output, questions, self.copied.find_answers())
        elif (
            call.status == "refused"
            and (tools.is_own_tool(call.name) or self.copied.find_denial())
            and (match := _SAID.search(output))
        ):
            words = match[1].partition("\n\nNote: The user's next message")[0].strip()
        if words and not words.startswith(_CLARIFIES):
            index = entry.ref - 1
            self.add_entry("user", words, line, offset, self.nodes[index], origin="answer")
            self.messages[-1] = self.messages[index]
        if call.kind == "plan" and (plan := _PLAN_FILE.search(output)):
            self.artifacts[plan[1]] = None


def _list_answers(
    output: str, questions: Sequence[OfferedQuestion], copied: record.ClaudeResult | None
) -> str:
    """Return what the user chose and wrote, from the copy for the screen; from the text without one."""
    if copied is None:
        pairs = _split_answers(output, questions)
        response = output.removeprefix(_RESPONDED) if output.startswith(_RESPONDED) else ""
    else:
        given, noted = copied.answers, copied.annotations or {}
        pairs = [
            (", ".join([a] if isinstance(a, str) else a), (note.notes or "") if note else "")
            for a, note in ((given.get(q.question, ""), noted.get(q.question)) for q in questions)
        ]
        response = copied.response or ""
    asked, answers = [*questions], ["" if a == _NOTES_ONLY else a for a, _ in pairs]
    whole = OfferedQuestion(" ".join(q.question for q in questions))
    notes = [note for _, note in pairs]
    return format_answers([*asked, *asked, whole], [*answers, *notes, response])


def _split_answers(output: str, questions: Sequence[OfferedQuestion]) -> list[tuple[str, str]]:
    """Return answer and note to each question, by the words of the questions themselves.

    A result is `"question"="answer", "question"="answer"` between two sentences. A preview, which
    the agent wrote, may follow an answer; without its end, no note is taken for the user's.
    """
    ends = [*_AFTER_ANSWERS.finditer(output)]
    output = output[: ends[-1].start()] if ends else output
    places, at = [], 0
    for asked in questions:
        mark = f'{", " if at else ": "}"{asked.question}"='
        found = output.find(mark, at)
        at = found + len(mark) if found >= 0 else at
        places.append((found, at))
    pairs = []
    for number, (found, start) in enumerate(places):
        following = next((p for p, _ in places[number + 1 :] if p >= 0), len(output))
        text = output[start:following] if found >= 0 else ""
        answer, shown, rest = text.partition('" selected preview:\n')
        if shown:
            previews = [o.preview for o in questions[number].options if not isinstance(o, str)]
            known = [p for p in previews if p and rest.startswith(p)]
            rest = rest[len(max(known, key=len)) :] if known else ""
        else:
            noted = _NOTE.search(text)
            answer, rest = (text[: noted.start()], text[noted.start() :]) if noted else (text, "")
        note = _NOTE.match(rest)
        answer = "" if answer.startswith("(") else answer.strip('"')
        pairs.append((answer, rest[note.end() :] if note else ""))
    return pairs


def _read_failure(
    call: ToolCall, output: str, row: record.CopiedFacts
) -> tuple[ToolStatus, int | None]:
    """Return what kind of failure a result is, and the exit code if it names one."""
    code = parse_exit_code(output) if call.kind == "shell" else None
    if output.startswith(_REFUSED) and row.find_denial() in _BY_USER:
        return "refused", code
    return "aborted" if "Cancelled: parallel" in output[:80] else "error", code
