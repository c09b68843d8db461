"""Read aider's chat histories.

A user's line is `#### …`, one of aider's own `> …`, and both end in two blanks; of several
lines of aider's own only the first has the mark, and only the last the blanks. The rest is
the model's.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr as put

from tasuki.harness.reading import markdown
from tasuki.harness.reading.jsonl import KEEP_WHOLE
from tasuki.harness.reading.threads import ThreadReader
from tasuki.harness.tool_table.calls import CallLog
from tasuki.model import ChangeKind, FileChange, Thread, ToolCall, ToolStatus
from tasuki.patterns import compile_pattern
from tasuki_aider.edits import find_whole_files, parse_edits, remove_edits

START = compile_pattern(r"# aider chat started at (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\s*\Z")
COMMANDS = frozenset({"/run", "/git", "/test", "/lint"})
EMPTIES = frozenset({"/clear", "/reset"})
NOTED = frozenset({
    "/add", "/drop", "/read-only", "/tokens", "/map", "/map-refresh", "/model", "/models",
    "/editor-model", "/weak-model", "/settings", "/exit", "/quit", "/ls", "/diff", "/commit",
    "/copy", "/copy-context", "/paste", "/editor", "/edit", "/voice", "/web", "/save", "/load",
    "/report", "/multiline-mode", "/chat-mode", "/think-tokens", "/reasoning-effort", "/help",
})  # fmt: skip
"""Commands that do not concern the work; aider's own lines show what they do."""
ASKING = frozenset({"/ask", "/code", "/architect", "/context"})
"""Commands whose words aider writes a second time, as a prompt."""
_ADDED = compile_pattern(
    r"Added (?!\d+ lines? of output)(.+?) to (?:the chat|read-only files)\.?\Z"
)
_OUTPUT_ADDED = compile_pattern(r"Added \d+ lines? of output to the chat")
_COMMIT = compile_pattern(r"Commit ([0-9a-f]{7,40}) (.*)\Z", re.DOTALL)
_TOKENS = compile_pattern(r"Tokens: ([\d.,]+)(k|M)? sent.*?([\d.,]+)(k|M)? received")
_FACTS = {
    "model": compile_pattern(r"(?:Main model|Model|Models): (\S+)"),
    "version": compile_pattern(r"Aider v(\S+)"),
}
_ERROR = compile_pattern(
    r"# \d+ SEARCH/REPLACE|The LLM did not conform|Unable to commit|litellm\.|Error\b|Can't "
)
_STOPPED = "^C again to exit"
_SCALE = {"k": 1_000, "M": 1_000_000}

BlockKind = Literal["start", "user", "own", "prose"]


class _HistoryBlock(Struct):
    """Lines that belong together; lines of the user and of aider come without their marks."""

    kind: BlockKind
    line: int
    lines: list[str]


class AiderReader(ThreadReader):
    """One pass over one history, or over a part of it that begins inside a chat."""

    harness = "aider"

    def __init__(self, text: markdown.MarkdownText, id: str, inside: bool = False) -> None:
        super().__init__(text.read, CallLog(KEEP_WHOLE))
        self.text, self.thread_id, self.inside = text, id, inside
        self.times: list[str] = []
        self.proposed = ""
        """The model's last words, whose edits may be applied."""
        self.command: ToolCall | None = None
        """The command of the user to which aider's next lines belong."""
        self.to_commit: dict[str, None] = {}
        """The files that aider named since a prompt: those of its commits."""
        self.asked = ""
        self.known_files: set[str] = set()
        """Files that the model has seen or written."""
        self.own_line_handlers: dict[re.Pattern[str], Callable[[re.Match[str]], object]] = {
            _TOKENS: self._on_tokens, compile_pattern("Applied edit to (.+)"): self._on_applied,
            _COMMIT: self._on_commit,
            compile_pattern("Committing (.+) before applying"): self._on_committing,
            compile_pattern("Running (.+)", re.DOTALL): self._on_running, _ADDED: self._on_added,
            _OUTPUT_ADDED: self._on_output_added,
        }  # fmt: skip

    def read(self) -> Thread:
        for block in _split_blocks(self.text.lines):
            self.id, self.offset = f"L{block.line + 1}", self.text.offsets[block.line]
            if block.kind == "start":
                self._start_chat(block.lines[0])
            elif block.kind == "user":
                self._read_user_text("\n".join(block.lines))
            elif block.kind == "own":
                self._read_own_text("\n".join(block.lines))
            elif text := markdown.strip_blank_lines(block.lines):
                self.command = None
                self.proposed = text
                if prose := markdown.strip_blank_lines(remove_edits(block.lines)):
                    self.add_entry("assistant", prose)
        return self._build_thread()

    def _add_call(self, name: str, output: str = "", **fields: Any) -> ToolCall:
        call = ToolCall(self.id, name, output=output, output_size=len(output), **fields)
        self.add_entry("tool", tool=call)
        self.log.names[name] = None
        return call

    # -- blocks ------------------------------------------------------------------------

    def _start_chat(self, line: str) -> None:
        """Start a new chat, which knows nothing of the one before."""
        match = START.match(line)
        assert match is not None
        is_later = self.inside or bool(self.times)
        self.times.append(f"{match[1]}T{match[2]}")
        self.at = self.times[-1]
        self.command = None
        if is_later:
            self.add_entry("compaction", "", "harness")

    def _read_user_text(self, text: str) -> None:
        self.command = None
        self.to_commit.clear()
        if text == "<blank>" or not text.strip() or text == self.asked:
            self.asked = ""
            return
        name, _, words = text.partition(" ")
        self.asked = words.strip() if name in ASKING else ""
        if name in COMMANDS or text.startswith("!"):
            self._run_command(name, text.removeprefix("!") if text.startswith("!") else words)
        elif name in EMPTIES:
            self.add_entry("compaction", "", "harness")
        elif name in NOTED:
            self.add_notice("note", text)
        else:
            origin, text = self.lines.gate.judge(text, "user")
            self.add_entry("user", text, origin)

    def _run_command(self, name: str, words: str) -> None:
        command = f"git {words}" if name == "/git" else words or name
        status: ToolStatus = "ok" if name == "/test" else "unknown"
        self.command = ToolCall(self.id, "!", "shell", command, status=status)
        self.add_entry("tool", origin="command", tool=self.command)

    def _read_own_text(self, text: str) -> None:
        """Read what aider itself says."""
        for name, fact in _FACTS.items():
            if match := fact.match(text):
                setattr(self, name, match[1])
                return
        for pattern, handler in self.own_line_handlers.items():
            if match := pattern.match(text):
                handler(match)
                return
        if text.startswith(_STOPPED):
            self.add_notice("interrupted", text)
        elif _ERROR.match(text):
            self.add_notice("error", text)
            self.to_commit.clear()
        elif self.command is not None and "(Y)es" not in text:
            output = f"{self.command.output}\n{text}".lstrip("\n")
            put(self.command, "output", output)
            put(self.command, "output_size", len(output))
        elif text.strip():
            self.add_notice("note", text)

    # -- aider's own lines -------------------------------------------------------------

    def _on_tokens(self, match: re.Match[str]) -> None:
        sent, received = _parse_amount(match[1], match[2]), _parse_amount(match[3], match[4])
        if sent is not None and received is not None:
            self.context_tokens = sent + received

    def _on_applied(self, match: re.Match[str]) -> None:
        path = match[1].strip()
        edits = [c for c in parse_edits(self.proposed) if _match_paths(c.path, path)]
        changes = edits or find_whole_files(self.proposed, path)
        known: ChangeKind | None = "edit" if path in self.known_files else None
        applied = tuple(FileChange(path, known or c.kind, c.old, c.new) for c in changes)
        self.known_files.add(path)
        self.to_commit[path] = None
        done = applied or (FileChange(path, "edit"),)
        self._add_call("edit", match[0], kind="edit", paths=(path,), changes=done, status="ok")

    def _on_committing(self, match: re.Match[str]) -> None:
        self.to_commit[match[1]] = None

    def _on_commit(self, match: re.Match[str]) -> None:
        command = shlex.join(("git", "commit", *(self.to_commit and ("--", *self.to_commit))))
        self._add_call("commit", match[0], kind="shell", command=command, status="ok")

    def _on_running(self, match: re.Match[str]) -> None:
        self._add_call("run", kind="shell", command=match[1].strip(), status="unknown")

    def _on_added(self, match: re.Match[str]) -> None:
        self.known_files.add(match[1])
        self._add_call("add", kind="read", paths=(match[1],), status="ok")

    def _on_output_added(self, match: re.Match[str]) -> None:
        """Mark `/test` as failed: its output is added without a question only then."""
        if self.command and self.command.status == "ok":
            put(self.command, "status", "error")

    # -- the whole ---------------------------------------------------------------------

    def _build_thread(self) -> Thread:
        last_user_ref = max((e.ref for e in self.entries if e.kind == "user"), default=0)
        stopped = [n.after for n in self.notices if n.kind == "interrupted"]
        return self.build_thread(
            self.thread_id, cwd=os.path.dirname(os.path.abspath(self.path)),
            started=min(self.times, default=""), updated=max(self.times, default=""),
            aborted=bool(stopped) and last_user_ref > 0 and stopped[-1] >= last_user_ref,
            documents=(),
        )  # fmt: skip


def _parse_amount(number: str, scale: str | None) -> int | None:
    try:
        return int(float(number.replace(",", "")) * _SCALE.get(scale or "", 1))
    except (ValueError, OverflowError):
        return None


def _match_paths(proposed: str, path: str) -> bool:
    return proposed == path or proposed.endswith(f"/{path}") or path.endswith(f"/{proposed}")


# -- blocks --------------------------------------------------------------------------------


def _split_blocks(lines: list[str]) -> Iterator[_HistoryBlock]:
    """Yield the blocks of a history. Where an editor removed blanks at line ends, the marks alone count."""
    marked = any(line.startswith("#### ") and line.endswith("  ") for line in lines)
    return _split_marked_blocks(lines) if marked else _split_bare_blocks(lines)


def _split_marked_blocks(lines: list[str]) -> Iterator[_HistoryBlock]:
    ends = _find_ends(lines)
    prose: list[str] = []
    position, prose_start, after_mark, fence = 0, 0, False, ""
    while position < len(lines):
        block = _parse_marked_block(lines, position, ends, after_mark)
        if block and block.kind == "user" and fence and _is_closed_below(lines, position, fence):
            block = None
        if block is None:
            mark = markdown.find_fence(lines[position])
            closes = fence and markdown.is_closing_fence(lines[position], fence)
            fence = "" if closes else fence or mark
            prose_start = prose_start if prose else position
            prose.append(lines[position])
            after_mark = after_mark and not lines[position]
            position += 1
            continue
        if prose:
            yield _HistoryBlock("prose", prose_start, prose)
            prose = []
        after_mark, fence = True, ""
        yield block
        position += len(block.lines)
    if prose:
        yield _HistoryBlock("prose", prose_start, prose)


def _is_closed_below(lines: list[str], position: int, fence: str) -> bool:
    """Return whether the code that is open at a line ends before aider says something."""
    for line in lines[position:]:
        if line.startswith("> ") or START.match(line):
            return False
        if markdown.is_closing_fence(line, fence):
            return True
    return False


def _parse_marked_block(
    lines: list[str], position: int, ends: list[int], after_mark: bool
) -> _HistoryBlock | None:
    """Return the block that begins at a line, None if that is the model's.

    A quote of the model has no blanks at its end, and follows no line of aider's.
    """
    line = lines[position]
    if line.startswith("# ") and START.match(line):
        return _HistoryBlock("start", position, [line])
    if line.startswith("#### ") and line.endswith("  "):
        end = position
        while end < len(lines) and lines[end].startswith("#### ") and lines[end].endswith("  "):
            end += 1
        return _HistoryBlock("user", position, [said[5:-2] for said in lines[position:end]])
    if not line.startswith(">"):
        return None
    end = position
    if line.endswith("  "):  # More lines of a command that is proposed end before aider's next one.
        below = enumerate(lines[position + 1 : position + 40], position + 1)
        after = next((n for n, x in below if not x.strip() or x[0] in ">#"), 0)
        if after and lines[after].startswith(">") and lines[after - 1].endswith("  "):
            end = after - 1
    else:
        end = ends[position + 1] if after_mark and lines[position - 1].strip() else len(lines)
        if end >= len(lines) or lines[end].startswith((">", "#### ", "# aider chat started")):
            return None
    own = "\n".join((line[2:], *lines[position + 1 : end + 1])).removesuffix("  ")
    return _HistoryBlock("own", position, own.split("\n"))


def _find_ends(lines: list[str]) -> list[int]:
    """Find for each line the next one, or itself, that ends aider's words or begins a chat."""
    ends = [len(lines)] * (len(lines) + 1)
    for position in range(len(lines) - 1, -1, -1):
        line = lines[position]
        below = lines[position + 1] if position + 1 < len(lines) else ""
        is_last = not below or below.startswith((">", "####", "# aider"))
        is_end = line.endswith("  ") and line.strip() and is_last
        ends[position] = position if is_end or START.match(line) else ends[position + 1]
    return ends


def _split_bare_blocks(lines: list[str]) -> Iterator[_HistoryBlock]:
    block: _HistoryBlock | None = None
    open_fence = ""
    for position, line in enumerate(lines):
        kind = _find_bare_kind(line) if not open_fence else "prose"
        if mark := markdown.find_fence(line) if kind == "prose" else "":
            closing = open_fence and markdown.is_closing_fence(line, open_fence)
            open_fence = "" if closing else open_fence or mark
        text = {"user": line[5:], "own": line[2:]}.get(kind, line)
        if block is not None and block.kind == kind and kind in ("user", "prose"):
            block.lines.append(text)
            continue
        if block is not None:
            yield block
        block = _HistoryBlock(kind, position, [text])
    if block is not None:
        yield block


def _find_bare_kind(line: str) -> BlockKind:
    if START.match(line):
        return "start"
    if line.startswith("####") and line[4:5] in (" ", ""):
        return "user"
    return "own" if line.startswith("> ") or line == ">" else "prose"
