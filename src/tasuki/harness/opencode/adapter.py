"""opencode: `~/.local/share/opencode/opencode.db/<session>`, and exports. Seen: 1.4 to 1.18."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tasuki.errors import ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.files import find_home_folder
from tasuki.harness import plans, protocol
from tasuki.harness.opencode import format as record
from tasuki.harness.opencode import head as heads
from tasuki.harness.opencode import store
from tasuki.harness.optional import ThreadPart, find_plain_file
from tasuki.harness.programs import ProgramHarness
from tasuki.harness.reading.heads import build_head
from tasuki.harness.reading.jsonl import UNDECODABLE, decode_lines, repair_line, split_output
from tasuki.model import Thread, ThreadHead

if TYPE_CHECKING:
    from sqlite3 import Connection

CONFIG = {
    "share": "disabled",
    "snapshot": False,
    "autoupdate": False,
    "permission": {"*": "deny", "bash": "deny", "edit": "deny"},
}
"""Settings on top of the user's: nothing is published, changed or run."""
_VARIABLE = "OPENCODE_CONFIG_CONTENT"


class Opencode(ProgramHarness):
    """The adapter of opencode."""

    name = "opencode"
    title = "opencode"
    program = "opencode"
    prefix = "Opencode"
    ready = r"Ask anything[\s\S]*ctrl\+p\s+commands"
    """The empty input, and the line below it. What is typed earlier is lost."""
    caller = protocol.CallerIdentity("opencode")
    facts = protocol.HarnessFacts(
        package="opencode-ai",
        tested="1.18.33",
        process_names=("opencode", "opencode-ai"),
        child_variables=("OPENCODE", "OPENCODE_PID"),
        acp=protocol.AcpCommand(("opencode", "acp"), "opencode-ai", 1),
    )
    key_variables = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")

    def list_files(self, cwd: Path | None = None) -> Iterator[protocol.ThreadFile]:
        return heads.list_session_files()

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        return heads.is_session(path, first)

    def read_head(self, file: protocol.ThreadFile) -> ThreadHead | None:
        path = file.path
        try:
            database, id = _split_path(path)
            if database is None:
                return build_head(self.read(path), file)
            build = heads.build_session_head
            return store.query_database(database, path, lambda db: build(db, id, file))
        except (ThreadUnreadable, ThreadNotFound):
            return None

    def read(self, path: Path) -> Thread:
        """Read a session `…/opencode.db/<id>`, the only one of a database, or an export."""
        database, id = _split_path(path)
        if database is None:
            return self.build_reader(path, path, store.load_export(path)).read()
        if not id:
            id = _find_only_session(database)
            path = database / id
        stored = store.query_database(database, path, lambda db: store.load_whole_session(db, id))
        if stored is None:
            raise ThreadUnreadable(
                f"{path}: the database holds no thread {id}. List them with: tasuki threads --all"
            )
        return self.build_reader(path, database, stored).read()

    def find_file(self, path: Path) -> protocol.ThreadFile | None:
        """Find a session in its database as lists show it, or an export."""
        database, id = _split_path(path) if path.exists() or path.parent.is_file() else (None, "")
        if database is None:
            return find_plain_file(path)
        return heads.find_session(database, id) if id else None

    def list_parts(self, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
        """List a database that holds this session alone, or the export."""
        database, id = _split_path(path)
        if database is None:
            return (ThreadPart(path.name, str(path)),)
        from tasuki.harness.opencode.extract import extract_session  # not needed to list threads

        data = store.query_database(database, path, lambda db: extract_session(db, id))
        return (ThreadPart(database.name, data=data),)

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        """List the folders as the program does, without those above `cwd` up to the repository."""
        home, own = find_home_folder(), heads.get_config_folder()
        folders = [own / "skill", own / "skills"]
        for base in (cwd, home):
            folders += [base / ".opencode" / "skill", base / ".opencode" / "skills"]
            folders += [base / ".claude" / "skills", base / ".agents" / "skills"]
        return tuple(folders)

    def ask(self, request: protocol.AskRequest) -> protocol.AskPlan:
        """Plan `opencode run -s ID --fork`, whose fork is deleted afterwards. Seen: 1.18. UsageError for an export."""
        database = _find_database(request)
        if database is None:
            raise UsageError(
                f"{request.thread.path} is an export: opencode can only be asked about a thread in its "
                "database. Name that one, or draft without it: --author offline."
            )
        return protocol.AskPlan(
            argv=(self.program, "run", "-s", request.thread.id, "--fork", "--format", "json"),
            cwd=plans.choose_ask_folder(request),
            stdin=request.question,
            env={
                _VARIABLE: _build_config(os.environ.get(_VARIABLE, "")),
                "OPENCODE_DB": str(database),
                "OPENCODE_PURE": "1",  # without the user's plugins
            },
        )

    def parse_answer(self, output: str, request: protocol.AskRequest) -> protocol.AskAnswer:
        """Parse the texts of the last message, and how the fork is deleted."""
        texts: list[str] = []
        steps: list[_OpencodeAnswerPart] = []
        failed: _OpencodeAnswerError | None = None
        id = fork = error = ""
        for event in decode_lines(split_output(output), _EVENT):
            fork = event.sessionID or fork
            if event.part.messageID not in ("", id):
                id, texts = event.part.messageID, []
            if event.type == "text":
                texts.append(event.part.text or "")
            elif event.type == "step_finish":
                steps.append(event.part)
            elif event.type == "error":
                failed = event.error or _OpencodeAnswerError()
                error = failed.data.message or failed.name or "an error without a message"
        cut = bool(steps) and steps[-1].reason == "length"
        price = sum(step.cost for step in steps)
        fork = fork or _find_fork(request)
        delete = (self.program, "session", "delete", fork)
        used = [step.tokens for step in steps]
        return protocol.AskAnswer(
            text="" if error or cut else "\n".join(texts),
            input_tokens=sum(one.input + one.cache.read + one.cache.write for one in used),
            output_tokens=sum(one.output for one in used),
            price=round(price, 6) if price else None,
            aborted=bool(failed and failed.name == "MessageAbortedError"),
            error=error or (plans.CUT_OFF if cut else ""),
            remove=delete if fork not in ("", request.thread.id) else (),
        )

    def list_key_files(self) -> tuple[Iterable[Path], Iterable[Path]]:
        settings = (
            heads.get_config_folder() / name for name in ("opencode.json", "opencode.jsonc")
        )
        return [heads.get_data_folder() / "auth.json"], settings

    def build_argument(self, prompt: str) -> tuple[str, ...]:
        return (f"--prompt={prompt}",)

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        is_kilo = Path(thread.path).parent.name.startswith("kilo")
        return ("kilo" if is_kilo else self.program, "-s", thread.id)


def _split_path(path: Path) -> tuple[Path | None, str]:
    """Return database and id of a session: no id if the path names none, no database for an export."""
    if path.parent.is_file():
        if not store.is_database(path.parent):
            raise ThreadUnreadable(f"{path}: {path.parent} is not a database of opencode.")
        return path.parent, path.name
    return (path, "") if store.is_database(path) else (None, "")


def _find_only_session(database: Path) -> str:
    """Return the id of a database's only session. Raises ThreadUnreadable if there are others."""
    sessions = sorted(store.list_sessions(database), key=lambda row: -row[1])
    if len(sessions) == 1:
        return sessions[0][0]
    if not sessions:
        raise ThreadUnreadable(f"{database} holds no thread yet.")
    newest = "\n".join(f"  {database / id}" for id, *_ in sessions[:5])
    raise ThreadUnreadable(
        f"{database} holds {len(sessions)} threads. Name one; the newest are:\n{newest}"
    )


def _find_database(request: protocol.AskRequest) -> Path | None:
    try:
        return _split_path(Path(request.thread.path))[0]
    except ThreadUnreadable:
        return None


def _build_config(own: str) -> str:
    """Combine the settings that the user gives in this way with those of `CONFIG`."""
    try:
        settings: Any = msgspec.json.decode(own)
    except UNDECODABLE:
        settings = {}
    settings = settings if isinstance(settings, dict) else {}
    return msgspec.json.encode({**settings, **CONFIG}).decode()


# -- what an agent answers -----------------------------------------------------------------


class _OpencodeAnswerPart(record.OpencodePart, frozen=True):
    messageID: str = ""
    reason: str = ""
    tokens: record.OpencodeTokens = record.OpencodeTokens()
    cost: float = 0.0


class _OpencodeAnswerError(Struct):
    name: str = ""
    data: plans.AnswerError = msgspec.field(default_factory=plans.AnswerError)


class _OpencodeAnswerEvent(Struct):
    """A line of `--format json`: a whole part of a message, or an error."""

    type: str = ""
    sessionID: str = ""
    part: _OpencodeAnswerPart = _OpencodeAnswerPart()
    error: _OpencodeAnswerError | None = None


_EVENT = msgspec.json.Decoder(_OpencodeAnswerEvent)


def _find_fork(request: protocol.AskRequest) -> str:
    """Find the fork that was asked, by the question in it: it has no name before the model speaks."""
    database = _find_database(request)
    if database is None:
        return ""
    question = request.question.strip()
    query = (
        "SELECT p.session_id, p.data FROM session s JOIN part p ON p.session_id = s.id"
        " WHERE s.time_created >= ? AND s.id <> ? ORDER BY s.time_created DESC"
    )

    def find_session(db: "Connection") -> str:
        for id, data in db.execute(query, (since, request.thread.id)):
            for part in decode_lines((repair_line(data),), record.PART):
                if part.type == "text" and (part.text or "").strip() == question:
                    return store.decode_text(id)
        return ""

    try:
        since = os.stat(request.scratch).st_ctime_ns // 1_000_000 - 60_000
        return store.query_database(database, Path(request.thread.path), find_session)
    except (OSError, ThreadUnreadable):
        return ""
