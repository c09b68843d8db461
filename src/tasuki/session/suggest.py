"""A handoff is suggested when the context of a thread fills up, once; and drafted, where that is wanted."""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from tasuki import config
from tasuki import harness as harnesses
from tasuki.config import Loaded
from tasuki.data_folder import data_folder
from tasuki.errors import TasukiError
from tasuki.harness.integration import HookCall, Integration
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread
from tasuki.session.hook import decoded, draft, folder_of, open_window, with_possible_paths, written

WINDOW = 200_000
"""Tokens of a context whose size nobody told."""
LARGE_WINDOW = 1_000_000
"""That of a thread that holds more than the usual one."""
KEPT_SECONDS = 60 * 86400
"""How long it is remembered what was said about a thread."""
FRESH_TURNS = 5
"""A thread that began with a handoff is not handed off by itself before the user spoke so often."""


class Memory:
    """What was said about a thread, as files in tasuki's data folder: safe with two at once."""

    def __init__(self, harness: str, thread: str) -> None:
        key = hashlib.sha256(f"{harness}:{thread}".encode()).hexdigest()[:24]
        self.folder = data_folder() / "suggested" / key

    def first(self, what: str) -> bool:
        """Whether this is said for the first time; from now on it is not."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.folder / what, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        except OSError:
            return False  # said at every turn it would be worse than not at all
        _forget(self.folder.parent)
        return True

    def window(self) -> int:
        """The size of the context that a status line told, 0 if none did."""
        try:
            return int((self.folder / "window").read_text())
        except (OSError, ValueError):
            return 0

    def note_window(self, tokens: int) -> None:
        """Remember the size of the context."""
        if tokens > 0 and tokens != self.window():
            with suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / "window").write_text(str(tokens))


def _forget(folder: Path) -> None:
    """Remove what was said about threads of long ago."""
    oldest = time.time() - KEPT_SECONDS
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.stat().st_mtime < oldest:
                for file in os.scandir(entry.path):
                    os.unlink(file.path)
                os.rmdir(entry.path)


# -- the status line -------------------------------------------------------------------


def status_line(name: str, payload: bytes) -> str:
    """The part of a status line: context use, and from the threshold on how to hand off."""
    made = harnesses.integration(harnesses.get(name))
    call = made.called(decoded(payload)) if made else None
    if made is None or call is None or call.kind != "status":
        return ""
    call = with_possible_paths(call)
    if call.window:
        Memory(name, call.thread_id).note_window(call.window)
    if call.used is None:
        return ""
    threshold = _loaded(call).settings.suggest_at
    advice = f" · {made.command}" if threshold and call.used >= threshold else ""
    return f"context {call.used:.0f} %{advice}"


def _loaded(call: HookCall) -> Loaded:
    return config.loaded(Path(folder_of(call)))


# -- the end of a turn -----------------------------------------------------------------


def at_turn_end(harness: Harness, call: HookCall, made: Integration) -> str:
    """What the user is told at the end of a turn; empty where there is nothing to say.

    Raises what making a draft raises, where one is to be made.
    """
    loaded = _loaded(call)
    settings = loaded.settings
    thresholds = [at for at in (settings.suggest_at, settings.auto_handoff_at) if at]
    if not thresholds or not call.path:
        return ""
    memory = Memory(harness.name, call.thread_id or call.path)
    used = context_use(harness, call, memory)
    if used is None or used < min(thresholds):
        return ""
    wanted = settings.auto_handoff_at and used >= settings.auto_handoff_at
    if wanted and (said := _automatic(harness, call, loaded, used, memory)):
        memory.first(f"suggested-{settings.suggest_at}")
        return said
    if not settings.suggest_at or used < settings.suggest_at:
        return ""
    if not memory.first(f"suggested-{settings.suggest_at}"):
        return ""
    said = f"The context is {used:.0f} % full. Hand off while all of it is known: {made.command}"
    return _notified(loaded, f"{harness.title}: the context is {used:.0f} % full", said, call.cwd)


def context_use(harness: Harness, call: HookCall, memory: Memory) -> float | None:
    """Percent of the context that a thread fills, None if nobody knows.

    From the payload of the hook, else from the thread's last figures and the window that the
    thread or the status line tells.
    """
    if call.used is not None:
        return call.used
    path = Path(call.path)
    holder = harnesses.file_of(path)
    if not holder.exists():
        return None
    written(call.path, call.text)
    stat = holder.stat()
    head = harness.head(ThreadFile(path, stat.st_mtime, stat.st_size))
    if head is None or head.context_tokens is None:
        return None
    tokens = head.context_tokens
    guessed = WINDOW if tokens <= WINDOW else LARGE_WINDOW
    return 100 * tokens / (head.context_window or call.window or memory.window() or guessed)


def _notified(loaded: Loaded, title: str, said: str, cwd: str) -> str:
    """Send it as a notification too, where that is wanted; with what went wrong then."""
    if not loaded.settings.notify:
        return said
    from tasuki import notify

    try:
        problems = notify.send(loaded.settings.notify, title, f"{said} ({cwd})")
    except TasukiError as error:
        problems = [str(error)]
    return "\n".join((said, *problems))


# -- by itself -------------------------------------------------------------------------


def _automatic(
    harness: Harness, call: HookCall, loaded: Loaded, used: float, memory: Memory
) -> str:
    """Make a draft with the user's last request as its goal, and show it; what the user is told.

    Once for a thread, and not for one that itself began with a handoff a few turns ago: a brief
    that fills half of the window would else hand itself on for ever. Nothing is sent.
    """
    path = written(call.path)
    thread = harness.read(path)
    goal = last_request(thread)
    if not goal or is_fresh_successor(thread) or not memory.first("automatic"):
        return ""
    id = draft(harness, path, goal, loaded, force=True)
    said = f"The context is {used:.0f} % full, so handoff {id} was drafted with your last request as its goal."
    cwd = folder_of(call)
    how = f"Review and start it in another terminal: tasuki start {id}"
    if os.environ.get("TMUX"):
        with suppress(TasukiError):
            how = f"Look at it in the {open_window(('start', id), cwd, loaded)}."
    return _notified(loaded, f"{harness.title}: a handoff was drafted", f"{said} {how}", cwd)


def last_request(thread: Thread) -> str:
    """What the user asked for last, to the letter."""
    asked = (e.text for e in reversed(thread.entries) if _is_request(e.kind, e.origin))
    return next((text for text in asked if text.strip()), "")


def is_fresh_successor(thread: Thread) -> bool:
    """Whether a thread began with a handoff, and the user has hardly spoken since."""
    if not any(e.origin == "handoff" for e in thread.entries[:4]):
        return False
    return sum(_is_request(e.kind, e.origin) for e in thread.entries) < FRESH_TURNS


def _is_request(kind: str, origin: str) -> bool:
    return kind == "user" and origin in ("typed", "queued")
