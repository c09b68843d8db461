"""Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`. Seen: 0.53 to 0.169."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tasuki.harness.codex_read import Reader
from tasuki.harness.jsonl import both_ends
from tasuki.harness.protocol import LaunchPlan, LaunchRequest, ThreadFile
from tasuki.model import Thread, ThreadHead

HEAD_BYTES = 96 << 10
TAIL_BYTES = 32 << 10
MAX_ARGUMENT = 100_000
"""Bytes of one argument; Linux allows 128 KiB."""

_META = re.compile(rb'"type": ?"session_meta"')
_ID = re.compile(rb'"id": ?"([^"]+)"')
_CWD = re.compile(rb'"cwd": ?("(?:[^"\\]|\\.)*")')
_TYPED = re.compile(
    rb'"type": ?"user_message", ?"message": ?("(?:[^"\\]|\\.)*")'
    rb'|"type": ?"UserMessage".{0,200}?"text": ?("(?:[^"\\]|\\.)*")'
)
_TYPED_MARKS = (b'"user_message"', b'"UserMessage"')
_SAID_MARKS = (b'"agent_message"', b'"AgentMessage"')
_USAGE = re.compile(rb'"last_token_usage": ?\{[^}]*"total_tokens": ?(\d+)')
_WINDOW = re.compile(rb'"model_context_window": ?(\d+)')
_NAME = re.compile(rb'"thread_name": ?("(?:[^"\\]|\\.)*")')
_READY = r"^› "


def home() -> Path:
    """Folder of Codex; `CODEX_HOME` moves it."""
    base = os.environ.get("CODEX_HOME")
    return Path(base) if base else Path.home() / ".codex"


class Codex:
    """The adapter of Codex."""

    name = "codex"
    title = "Codex"
    program = "codex"
    can_prefill = False

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        """All rollouts: only their heads tell the folder."""
        for folder in ("sessions", "archived_sessions"):
            yield from _rollouts_in(str(home() / folder))

    def recognises(self, path: Path, first: bytes) -> bool:
        line = first.lstrip()[:300].partition(b"\n")[0]
        return line.startswith(b"{") and bool(_META.search(line))

    def head(self, file: ThreadFile) -> ThreadHead | None:
        first, last = both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
        if not first or not _META.search(first[0], 0, 300):
            return None
        return _head(file, b"\n".join(first), b"\n".join(last))

    def read(self, path: Path) -> Thread:
        return Reader(path, lambda id: rollout(id, path)).read()

    def skill_command(self, skill: str) -> str:
        return f"${skill}"

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """`codex PROMPT` where it is to be sent at once, else an unsent paste."""
        text = request.brief
        model = ("--model", request.model) if request.model else ()
        as_argument = request.send and len(text.encode()) <= MAX_ARGUMENT
        argument: tuple[str, ...] = ()
        if as_argument:
            argument = ("--", text) if text.startswith("-") else (text,)
        return LaunchPlan(
            argv=(self.program, *model, *request.arguments, *argument),
            cwd=request.cwd,
            paste="" if as_argument else text,
            submit=request.send and not as_argument,
            ready=_READY,
            note=""
            if as_argument
            else "Codex cannot start with an unsent prompt: in tmux the brief is pasted into its "
            "input, elsewhere it has to be pasted by hand.",
        )

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "resume", thread.id)


def rollout(id: str, near: Path) -> Path | None:
    """The rollout of a thread, by its id: beside another one, else anywhere in the same store."""
    if not re.fullmatch(r"[\w-]+", id):
        return None
    pattern = f"rollout-*-{id}.jsonl"
    for folder in dict.fromkeys((near.parent, *_stores(near))):
        found = folder.glob(pattern) if folder == near.parent else folder.rglob(pattern)
        if path := next(found, None):
            return path
    return None


def _stores(near: Path) -> Iterator[Path]:
    for parent in near.parents:
        if parent.name in ("sessions", "archived_sessions"):
            yield parent
            yield parent.parent / "sessions"
            yield parent.parent / "archived_sessions"
    yield home() / "sessions"
    yield home() / "archived_sessions"


def _rollouts_in(folder: str) -> Iterator[ThreadFile]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _rollouts_in(entry.path)
        elif entry.name.startswith("rollout-") and entry.name.endswith(".jsonl"):
            try:
                stat = entry.stat()
            except OSError:
                continue
            if stat.st_size:
                yield ThreadFile(path=Path(entry.path), modified=stat.st_mtime, bytes=stat.st_size)


def _head(file: ThreadFile, first: bytes, last: bytes) -> ThreadHead | None:
    words = _first_words(first)
    id, cwd = _ID.search(first, 0, 2000), _CWD.search(first, 0, 4000)
    if not id or not (words or last):
        return None
    usage = _last_of(_USAGE, b'"last_token_usage"', last) or _last_of(
        _USAGE, b'"last_token_usage"', first
    )
    window = _last_of(_WINDOW, b'"model_context_window"', last) or _last_of(
        _WINDOW, b'"model_context_window"', first
    )
    name = _last_of(_NAME, b'"thread_name"', last) or _last_of(_NAME, b'"thread_name"', first)
    said = sum(first.count(m) + last.count(m) for m in _marks(first))
    return ThreadHead(
        harness="codex",
        id=id[1].decode("utf-8", "replace"),
        path=str(file.path),
        cwd=_string(cwd[1]) if cwd else "",
        name=_string(name) if name else "",
        first_words=words,
        modified=file.modified,
        bytes=file.bytes,
        messages=said if not last else round(said * file.bytes / (len(first) + len(last))),
        exact=not last,
        context_tokens=int(usage) if usage else None,
        context_window=int(window) if window else None,
    )


def _marks(first: bytes) -> tuple[bytes, bytes]:
    """What marks a message of the user and one of the agent in this version's events."""
    index = 0 if _TYPED_MARKS[0] in first else 1
    return _TYPED_MARKS[index], _SAID_MARKS[index]


def _first_words(first: bytes) -> str:
    for mark in _TYPED_MARKS:
        at = first.find(mark)
        if at >= 0 and (match := _TYPED.search(first, max(at - 10, 0))):
            return " ".join(_string(match[1] or match[2]).split())[:120]
    return ""


def _last_of(pattern: re.Pattern[bytes], mark: bytes, block: bytes) -> bytes | None:
    at = block.rfind(mark)
    match = pattern.match(block, at) if at >= 0 else None
    return match[1] if match else None


def _string(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return raw[1:-1].decode("utf-8", "replace")
