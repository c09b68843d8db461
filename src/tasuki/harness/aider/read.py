"""Reading aider's chat histories.

A user's line is `#### …`, one of aider's own `> …`, and both end in two blanks; of several lines
of aider's own only the first has the mark, and only the last the blanks. The rest is the model's.
"""

import os
import re
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import force_setattr as put

from tasuki.harness import markdown
from tasuki.harness.jsonl import begins_handoff, mark_compacted
from tasuki.model import Entry, EntryKind, FileChange, Notice, Origin, Thread, ToolCall, ToolStatus

START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\s*\Z")
COMMANDS = frozenset({"/run", "/git", "/test", "/lint"})
EMPTIES = frozenset({"/clear", "/reset"})
NOTED = frozenset({
    "/add", "/drop", "/read-only", "/tokens", "/map", "/map-refresh", "/model", "/models",
    "/editor-model", "/weak-model", "/settings", "/exit", "/quit", "/ls", "/diff", "/commit",
    "/copy", "/copy-context", "/paste", "/editor", "/edit", "/voice", "/web", "/save", "/load",
    "/report", "/multiline-mode", "/chat-mode", "/think-tokens", "/reasoning-effort", "/help",
})  # fmt: skip
"""Commands that say nothing about the work; what they do is told by aider's own lines."""
ASKING = frozenset({"/ask", "/code", "/architect", "/context"})
"""Commands whose words aider writes down a second time, as a prompt."""
_ADDED = re.compile(r"Added (?!\d+ lines? of output)(.+?) to (?:the chat|read-only files)\.?\Z")
_OUTPUT_ADDED = re.compile(r"Added \d+ lines? of output to the chat")
_COMMIT = re.compile(r"Commit ([0-9a-f]{7,40}) (.*)\Z", re.DOTALL)
_TOKENS = re.compile(r"Tokens: ([\d.,]+)(k|M)? sent.*?([\d.,]+)(k|M)? received")
_MODEL = re.compile(r"(?:Main model|Model|Models): (\S+)")
_VERSION = re.compile(r"Aider v(\S+)")
_ERROR = re.compile(
    r"# \d+ SEARCH/REPLACE|The LLM did not conform|Unable to commit|litellm\.|Error\b|Can't "
)
_STOPPED = "^C again to exit"
_SCALE = {"k": 1_000, "M": 1_000_000}

BlockKind = Literal["start", "user", "own", "prose"]


class _Block(Struct):
    """Lines that belong together; those of the user and of aider come without their marks."""

    kind: BlockKind
    at: int
    lines: list[str]


class Reader:
    """One pass over one history, or over a part of it that begins inside of a chat."""

    def __init__(self, text: markdown.Text, id: str, inside: bool = False) -> None:
        self.text, self.id, self.inside = text, id, inside
        self.entries: list[Entry] = []
        self.notices: list[Notice] = []
        self.times: list[str] = []
        self.tool_names: dict[str, None] = {}
        self.proposed = ""
        """The model's last words, whose edits may be applied."""
        self.command: ToolCall | None = None
        """The command of the user to which aider's next lines belong."""
        self.asked = ""
        self.known: set[str] = set()
        """Files that the model has seen or written."""
        self.model = self.version = ""
        self.context: int | None = None
        self.at = 0
        self.own: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], object]], ...] = (
            (_TOKENS, self._on_tokens),
            (re.compile("Applied edit to (.+)"), self._on_applied),
            (_COMMIT, self._on_commit),
            (re.compile("Running (.+)", re.DOTALL), self._on_running),
            (_ADDED, self._on_added),
            (_OUTPUT_ADDED, self._on_output_added),
            (_MODEL, self._on_model),
            (_VERSION, self._on_version),
        )

    def read(self) -> Thread:
        for block in _blocks(self.text.lines):
            self.at = block.at
            if block.kind == "start":
                self._start(block.lines[0])
            elif block.kind == "user":
                self._user("\n".join(block.lines))
            elif block.kind == "own":
                self._own("\n".join(block.lines))
            elif said := markdown.stripped(block.lines):
                self.command = None
                self.proposed = said
                if prose := markdown.stripped(markdown.without_edits(block.lines)):
                    self._add("assistant", prose)
        return self._thread()

    def _add(
        self, kind: EntryKind, text: str = "", origin: Origin = "typed",
        tool: ToolCall | None = None,
    ) -> Entry:  # fmt: skip
        entry = Entry(
            ref=len(self.entries) + 1,
            kind=kind,
            text=text,
            at=self.times[-1] if self.times else "",
            id=f"L{self.at + 1}",
            origin=origin,
            tool=tool,
            offset=self.text.offsets[self.at],
        )
        self.entries.append(entry)
        if tool and origin == "typed":
            self.tool_names[tool.name] = None
        return entry

    def _call(self, name: str, **known: object) -> ToolCall:
        call = ToolCall(id=f"L{self.at + 1}", name=name, **known)  # type: ignore[arg-type]
        self._add("tool", tool=call)
        return call

    def _notice(self, kind: Literal["interrupted", "error", "note"], text: str) -> None:
        self.notices.append(Notice(after=len(self.entries), kind=kind, text=text[:300]))

    # -- blocks ------------------------------------------------------------------------

    def _start(self, line: str) -> None:
        """A new chat knows nothing of the one before."""
        match = START.match(line)
        assert match is not None
        begun = self.inside or bool(self.times)
        self.times.append(f"{match[1]}T{match[2]}")
        self.command = None
        if begun:
            self._add("compaction", line, "harness")

    def _user(self, text: str) -> None:
        self.command = None
        if text == "<blank>" or not text.strip() or text == self.asked:
            self.asked = ""
            return
        name, _, words = text.partition(" ")
        self.asked = words.strip() if name in ASKING else ""
        if name in COMMANDS or text.startswith("!"):
            self._run(name, text.removeprefix("!") if text.startswith("!") else words)
        elif name in EMPTIES:
            self._add("compaction", text, "harness")
        elif name in NOTED:
            self._notice("note", text)
        else:
            self._add("user", text, "handoff" if begins_handoff(text) else "typed")

    def _run(self, name: str, words: str) -> None:
        command = f"git {words}" if name == "/git" else words or name
        status: ToolStatus = "ok" if name == "/test" else "unknown"
        self.command = ToolCall(
            id=f"L{self.at + 1}", name="!", kind="shell", command=command, status=status
        )
        self._add("tool", origin="command", tool=self.command)

    def _own(self, text: str) -> None:
        """What aider itself says."""
        for pattern, handler in self.own:
            if match := pattern.match(text):
                handler(match)
                return
        if text.startswith(_STOPPED):
            self._notice("interrupted", text)
        elif _ERROR.match(text):
            self._notice("error", text)
        elif self.command is not None and "(Y)es" not in text:
            output = f"{self.command.output}\n{text}".lstrip("\n")
            put(self.command, "output", output)
            put(self.command, "output_size", len(output))
        elif text.strip():
            self._notice("note", text)

    # -- aider's own lines -------------------------------------------------------------

    def _on_tokens(self, match: re.Match[str]) -> None:
        sent, received = _amount(match[1], match[2]), _amount(match[3], match[4])
        if sent is not None and received is not None:
            self.context = sent + received

    def _on_applied(self, match: re.Match[str]) -> None:
        path = match[1].strip()
        changes = [c for c in markdown.edits(self.proposed) if _same(c.path, path)]
        if not changes:
            changes = markdown.whole_files(self.proposed, path)
        made = tuple(
            FileChange(path, "edit" if path in self.known else c.kind, c.old, c.new)
            for c in changes
        )
        self.known.add(path)
        self._call(
            "edit",
            kind="edit",
            paths=(path,),
            changes=made or (FileChange(path=path, kind="edit"),),
            output=match[0],
            output_size=len(match[0]),
            status="ok",
        )

    def _on_commit(self, match: re.Match[str]) -> None:
        size = len(match[0])
        self._call(
            "commit", kind="shell", command="git commit", output=match[0], output_size=size, status="ok"
        )  # fmt: skip

    def _on_running(self, match: re.Match[str]) -> None:
        self._call("run", kind="shell", command=match[1].strip(), status="unknown")

    def _on_added(self, match: re.Match[str]) -> None:
        self.known.add(match[1])
        self._call("add", kind="read", paths=(match[1],), status="ok")

    def _on_output_added(self, match: re.Match[str]) -> None:
        """The output of `/test` is added without a question if the command failed."""
        if self.command and self.command.status == "ok":
            put(self.command, "status", "error")

    def _on_model(self, match: re.Match[str]) -> None:
        self.model = match[1]

    def _on_version(self, match: re.Match[str]) -> None:
        self.version = match[1]

    # -- the whole ---------------------------------------------------------------------

    def _thread(self) -> Thread:
        said = max((e.ref for e in self.entries if e.kind == "user"), default=0)
        stopped = [n.after for n in self.notices if n.kind == "interrupted"]
        path = self.text.path
        return Thread(
            harness="aider",
            id=self.id,
            path=str(path),
            cwd=os.path.dirname(os.path.abspath(path)),
            model=self.model,
            version=self.version,
            tools=tuple(self.tool_names),
            started=min(self.times, default=""),
            updated=max(self.times, default=""),
            context_tokens=self.context,
            entries=tuple(mark_compacted(self.entries)),
            notices=tuple(self.notices),
            aborted=bool(stopped) and said > 0 and stopped[-1] >= said,
            sources=(str(path),),
            report=self.text.report(),
        )


def _amount(number: str, scale: str | None) -> int | None:
    try:
        return int(float(number.replace(",", "")) * _SCALE.get(scale or "", 1))
    except (ValueError, OverflowError):
        return None


def _same(proposed: str, path: str) -> bool:
    return proposed == path or proposed.endswith(f"/{path}") or path.endswith(f"/{proposed}")


# -- blocks --------------------------------------------------------------------------------


def _blocks(lines: list[str]) -> Iterator[_Block]:
    """The blocks of a history. Where an editor took the blanks at line ends, the marks alone count."""
    marked = any(line.startswith("#### ") and line.endswith("  ") for line in lines)
    return _marked_blocks(lines) if marked else _bare_blocks(lines)


def _marked_blocks(lines: list[str]) -> Iterator[_Block]:
    ends = _ends(lines)
    prose: list[str] = []
    at, begun, after_mark = 0, 0, False
    while at < len(lines):
        block = _marked(lines, at, ends, after_mark)
        if block is None:
            begun = begun if prose else at
            prose.append(lines[at])
            after_mark = after_mark and not lines[at]
            at += 1
            continue
        if prose:
            yield _Block("prose", begun, prose)
            prose = []
        after_mark = True
        yield block
        at += len(block.lines)
    if prose:
        yield _Block("prose", begun, prose)


def _marked(lines: list[str], at: int, ends: list[int], after_mark: bool) -> _Block | None:
    """The block that begins at a line, None if that is the model's.

    A quote of the model has no blanks at its end, and follows no line of aider's.
    """
    line = lines[at]
    if line.startswith("# ") and START.match(line):
        return _Block("start", at, [line])
    if line.startswith("#### ") and line.endswith("  "):
        end = at
        while end < len(lines) and lines[end].startswith("#### ") and lines[end].endswith("  "):
            end += 1
        return _Block("user", at, [said[5:-2] for said in lines[at:end]])
    if not line.startswith(">"):
        return None
    if line.endswith("  "):
        return _Block("own", at, [line[2:-2]])
    end = ends[at + 1] if after_mark and lines[at - 1].strip() else len(lines)
    if end >= len(lines) or lines[end].startswith((">", "#### ", "# aider chat started")):
        return None
    return _Block("own", at, [line[2:], *lines[at + 1 : end], lines[end][:-2]])


def _ends(lines: list[str]) -> list[int]:
    """For each line the next one that ends what aider says or begins a chat, itself included."""
    ends = [len(lines)] * (len(lines) + 1)
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at]
        over = line.endswith("  ") and line.strip() and _begins_block(lines[at + 1 : at + 2])
        ends[at] = at if over or START.match(line) else ends[at + 1]
    return ends


def _begins_block(following: list[str]) -> bool:
    """Whether a line, or the end of the file, can stand behind the last one of a block."""
    return not following or not following[0] or following[0].startswith((">", "####", "# aider"))


def _bare_blocks(lines: list[str]) -> Iterator[_Block]:
    block: _Block | None = None
    open_fence = ""
    for at, line in enumerate(lines):
        kind = _bare_kind(line) if not open_fence else "prose"
        if mark := markdown.fence(line) if kind == "prose" else "":
            closing = open_fence and markdown.closes(line, open_fence)
            open_fence = "" if closing else open_fence or mark
        text = {"user": line[5:], "own": line[2:]}.get(kind, line)
        if block is not None and block.kind == kind and kind in ("user", "prose"):
            block.lines.append(text)
            continue
        if block is not None:
            yield block
        block = _Block(kind, at, [text])
    if block is not None:
        yield block


def _bare_kind(line: str) -> BlockKind:
    if START.match(line):
        return "start"
    if line.startswith("####") and line[4:5] in (" ", ""):
        return "user"
    return "own" if line.startswith("> ") or line == ">" else "prose"
