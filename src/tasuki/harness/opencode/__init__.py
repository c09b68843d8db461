"""opencode: `~/.local/share/opencode/opencode.db/<session>`, and exports. Seen: 1.4 to 1.18."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tasuki.errors import ThreadNotFound, ThreadUnreadable
from tasuki.harness import plans
from tasuki.harness.control import Control
from tasuki.harness.integration import Integration
from tasuki.harness.jsonl import UNDECODABLE, repaired, scanned
from tasuki.harness.opencode import format as record
from tasuki.harness.opencode import store
from tasuki.harness.opencode.read import Reader, named, unfolded
from tasuki.harness.protocol import (
    AskAnswer,
    AskPlan,
    AskRequest,
    Caller,
    LaunchPlan,
    LaunchRequest,
    ThreadFile,
)
from tasuki.model import Thread, ThreadHead
from tasuki.paths import home_folder, real_path

if TYPE_CHECKING:
    from sqlite3 import Connection

_EXPORT = re.compile(rb'\A\s*\{\s*"info"\s*:\s*\{[^{}]*?"id"\s*:\s*"ses_')
_NAME = re.compile(r"opencode(?:-[\w.-]+)?\.db")
_READY = r"Ask anything[\s\S]*ctrl\+p\s+commands"
"""The empty input, and the line below it. What is typed before is lost."""
MESSAGE = 8000
"""Bytes that a message takes up with its parts, by and large."""


def config_folder() -> Path:
    """Folder of opencode's configuration; `XDG_CONFIG_HOME` moves it."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else home_folder() / ".config") / "opencode"


def data_folder() -> Path:
    """Folder of opencode's data; `XDG_DATA_HOME` moves it."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base else home_folder() / ".local" / "share") / "opencode"


def databases() -> list[Path]:
    """The databases of opencode and of its preview channels; `OPENCODE_DB` names one instead."""
    folder = data_folder()
    if name := os.environ.get("OPENCODE_DB", ""):
        return [folder / name] if name != ":memory:" else []
    return sorted(Path(e.path) for e in scanned(folder) if _NAME.fullmatch(e.name))


class Opencode:
    """The adapter of opencode."""

    name = "opencode"
    title = "opencode"
    program = "opencode"
    can_start = True
    can_prefill = False
    can_ask = True
    caller = Caller("opencode")

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        """Sessions, but for those of sub-agents; the size is estimated from their messages."""
        here = os.path.realpath(cwd) if cwd is not None else ""
        same: dict[str, bool] = {"": not here}
        for path in databases():
            try:
                found = store.listed(path)
            except ThreadUnreadable:
                continue
            for id, folder, modified, messages in found:
                if here and folder not in same:
                    same[folder] = real_path(folder) == here
                if id and (not here or same[folder]):
                    yield ThreadFile(path=path / id, modified=modified, bytes=messages * MESSAGE)

    def recognises(self, path: Path, first: bytes) -> bool:
        if not first.startswith(store.MAGIC):
            return bool(_EXPORT.match(first))
        database = path.parent if path.parent.is_file() else path
        if _NAME.fullmatch(database.name):
            return True
        try:
            return store.holds_sessions(database)
        except ThreadUnreadable:
            return False

    def head(self, file: ThreadFile) -> ThreadHead | None:
        path = file.path
        try:
            database, id = _parts(path)
            if database is None:
                return _exported_head(self.read(path), file)
            return store.ask(database, path, lambda db: _head(db, id, file))
        except (ThreadUnreadable, ThreadNotFound):
            return None

    def read(self, path: Path) -> Thread:
        """A session `…/opencode.db/<id>`, the only one of a database, or an export."""
        database, id = _parts(path)
        if database is None:
            return Reader(path, path, store.exported(path)).read()
        if not id:
            id = _only(database)
            path = database / id
        found = store.ask(database, path, lambda db: _found(db, id))
        if found is None:
            raise ThreadUnreadable(
                f"{path}: the database holds no thread {id}. List them with: tasuki threads --all"
            )
        return Reader(path, database, found).read()

    def skill_command(self, skill: str) -> str:
        return f"/{skill}"

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        """As the program looks for them, the folders above `cwd` up to the repository left out."""
        home, own = home_folder(), config_folder()
        folders = [own / "skill", own / "skills"]
        for base in (cwd, home):
            folders += [base / ".opencode" / "skill", base / ".opencode" / "skills"]
            folders += [base / ".claude" / "skills", base / ".agents" / "skills"]
        return tuple(folders)

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """The brief as `--prompt=…`, which sends it, or pasted into the input."""
        return plans.with_brief(
            self.program,
            self.title,
            request,
            ready=_READY,
            argument=lambda prompt: (f"--prompt={prompt}",),
        )

    def ask(self, request: AskRequest) -> AskPlan:
        from tasuki.harness.opencode import asking

        return asking.plan(self.program, request)

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        from tasuki.harness.opencode import asking

        return asking.answered(output, request, self.program)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "-s", thread.id)

    def integration(self) -> Integration:
        from tasuki.harness.opencode.installing import OpencodeIntegration

        return OpencodeIntegration()

    def control(self) -> Control:
        from tasuki.harness.opencode.control import OpencodeControl

        return OpencodeControl()


def _parts(path: Path) -> tuple[Path | None, str]:
    """The database and the id of a session, empty if the path names none; no database of an export."""
    if path.parent.is_file():
        if not store.is_database(path.parent):
            raise ThreadUnreadable(f"{path}: {path.parent} is no database of opencode.")
        return path.parent, path.name
    return (path, "") if store.is_database(path) else (None, "")


def _found(db: "Connection", id: str) -> store.Found | None:
    session = store.session(db, id)
    return store.Found(session, store.rows(db, id)) if session else None


def _only(database: Path) -> str:
    """Id of the only session of a database. Raises ThreadUnreadable if there are others."""
    found = sorted(store.listed(database), key=lambda row: -row[2])
    if len(found) == 1:
        return found[0][0]
    if not found:
        raise ThreadUnreadable(f"{database} holds no thread yet.")
    newest = "\n".join(f"  {database / id}" for id, *_ in found[:5])
    raise ThreadUnreadable(f"{database} holds {len(found)} threads. Name one; the newest are:\n{newest}")  # fmt: skip


# -- what a list shows ---------------------------------------------------------------------


def _head(db: "Connection", id: str, file: ThreadFile) -> ThreadHead | None:
    session = store.session(db, id)
    if session is None:
        return None
    ((count,),) = db.execute("SELECT count(*) FROM message WHERE session_id = ?", (id,))
    if not count:
        return None
    return ThreadHead(
        harness="opencode",
        id=id,
        path=str(file.path),
        cwd=session.directory,
        name=named(session.title),
        first_words=_first_words(db, id),
        modified=file.modified,
        bytes=file.bytes,
        messages=count,
        exact=True,
        context_tokens=_context(db, id),
    )


def _first_words(db: "Connection", id: str) -> str:
    query = (
        "SELECT p.data FROM message m JOIN part p ON p.message_id = m.id WHERE m.session_id = ?"
        " ORDER BY m.time_created, m.id, p.id LIMIT 20"
    )
    for (data,) in db.execute(query, (id,)):
        try:
            part = record.PART.decode(repaired(data))
        except (*UNDECODABLE, TypeError):
            continue
        if part.type == "text" and not part.synthetic and (part.text or "").strip():
            return _words(unfolded(part.text or "")[0])
    return ""


def _context(db: "Connection", id: str) -> int | None:
    query = (
        "SELECT data FROM message WHERE session_id = ? ORDER BY time_created DESC, id DESC LIMIT 9"
    )
    for (data,) in db.execute(query, (id,)):
        try:
            used = record.MESSAGE.decode(repaired(data)).tokens.context
        except (*UNDECODABLE, TypeError):
            continue
        if used:
            return used
    return None


def _exported_head(thread: Thread, file: ThreadFile) -> ThreadHead | None:
    said = [e for e in thread.entries if e.kind == "user" and e.origin != "harness"]
    if not thread.entries:
        return None
    return ThreadHead(
        harness="opencode",
        id=thread.id,
        path=str(file.path),
        cwd=thread.cwd,
        name=thread.name,
        first_words=_words(said[0].text) if said else "",
        modified=file.modified,
        bytes=file.bytes,
        messages=thread.report.lines,
        context_tokens=thread.context_tokens,
    )


def _words(text: str) -> str:
    return " ".join(text.split())[:120]
