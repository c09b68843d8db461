"""Hands a session off again and again, killed each time at the next write; prints what was left each time.

    killed_handoff.py FOLDER

A line of JSON for each kill: the call that was the last, and the kinds of entries of each session on disk.
The last line is that of the handoff that nothing killed.
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from fakes.session_backend import ScriptedBackend
from sessions import DOCUMENT, WORKED, Desk, says

from tasuki.config import settings
from tasuki.session.pi_store.manager import SessionManager, list_sessions
from tasuki.vault import Vault

CALLS = ("write", "fsync", "rename", "replace", "mkdir", "unlink")
ARMED = False
LEFT = 0


def lethal(name: str) -> Any:
    """A call of the operating system that kills the process once enough of them went before."""
    real = getattr(os, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        global LEFT
        if ARMED:
            LEFT -= 1
            if LEFT == 0:
                Path("last").write_text(name)
                os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    return call


async def handed_off(folder: Path) -> None:
    """Work, then a handoff in which every write may be the last."""
    global ARMED
    at = await Desk(
        folder, ScriptedBackend((says(DOCUMENT), WORKED)), settings.load_with_sources(folder)
    ).worked()
    ARMED = True
    assert await at.session.handoff() is not None


def left(folder: Path) -> dict[str, Any]:
    """What is on disk, read as the next start reads it."""
    kinds = []
    for path in sorted((folder / "sessions").glob("*.jsonl")):
        with closing(SessionManager.open(path)) as manager:
            assert manager.notes == [], manager.notes
            kinds.append([entry["type"] for entry in manager.tree.entries])
    vault = Vault(folder / "handoffs")
    briefs = [len(vault.load_brief(handoff.id)) for handoff in vault.list_handoffs()]
    newest = next(iter(list_sessions(folder, folder / "sessions")), None)
    session = SessionManager.open(Path(newest.path)) if newest else None
    context = [m["role"] for m in session.build_session_context()] if session else []
    last = Path("last").read_text() if Path("last").exists() else ""
    return {"last": last, "sessions": kinds, "briefs": briefs, "context": context}


def main(base: Path) -> None:
    """Kill at the first write, at the second, …, until the handoff is through."""
    global LEFT
    for name in CALLS:
        setattr(os, name, lethal(name))
    for LEFT in range(1, 200):
        folder = base / str(LEFT)
        (folder / "src").mkdir(parents=True)
        os.chdir(folder)
        if (child := os.fork()) == 0:
            asyncio.run(handed_off(folder))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(json.dumps({**left(folder), "killed": os.WIFSIGNALED(status)}), flush=True)
        if not os.WIFSIGNALED(status):
            assert status == 0
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
