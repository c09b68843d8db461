"""opencode: its database, opened so that no file changes, exports, and successors."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from fixture_threads import by_ref, calls, corpus, database, one, said, thread_file, unzipped
from handoffs import made

from tasuki.errors import ThreadUnreadable
from tasuki.harness.opencode.adapter import Opencode
from tasuki.harness.opencode.head import list_databases
from tasuki.harness.opencode.store import list_sessions
from tasuki.harness.protocol import LaunchRequest
from tasuki.harness.reading.jsonl import collect_unreadable
from tasuki.harness.registry import detect_harness
from tasuki.model import FileChange, Thread, Todo, ToolCall
from tasuki_testing import ThreadBuilder

TUI = "ses_dfefffddaffe176htBOEfGZEWd"
CHILD = "ses_dfeffdb5dffeHT38hwhZUUpvIw"


def sql(name: str) -> Path:
    """A captured database as its thread `…/opencode.db/<id>`."""
    return database(one("opencode", f"{name}-1.18.sql"))


def read(name: str) -> Thread:
    """The thread of a captured database."""
    return Opencode().read(sql(name))


def tool(thread: Thread, ref: int) -> ToolCall:
    """The call of an entry."""
    call = by_ref(thread, ref).tool
    assert call is not None
    return call


def copied(name: str, folder: Path) -> Path:
    """A copy of a captured database, and the thread in it."""
    path = sql(name)
    shutil.copy(path.parent, folder / "opencode.db")
    return folder / "opencode.db" / path.name


def changed(path: Path, statement: str, *values: object) -> None:
    """Change a database behind opencode's back."""
    with closing(sqlite3.connect(path.parent)) as db:
        db.execute(statement, values)
        db.commit()


def left(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of every file in a folder."""
    return {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in sorted(folder.iterdir())}


# -- what was said and done ----------------------------------------------------------------


def test_a_headless_run_is_read_whole() -> None:
    """Words, calls with their results, changes, todos: as the program recorded them."""
    thread = read("run")

    assert said(thread) == [(1, "typed", '"Please raise the login timeout; keep it under 30 s"')]
    assert calls(thread) == [
        (3, "read", "src/login.py", "ok", None),
        (4, "todowrite", "", "ok", None),
        (6, "edit", "src/login.py", "ok", None),
        (7, "write", "tests/test_timeout.py", "ok", None),
        (8, "bash", "echo '1 failed: timeout'; exit 3", "error", 3),
        (9, "grep", "src", "error", None),
        (10, "task", "", "ok", None),
        (11, "read", "src/nowhere.py", "error", None),
        (12, "todowrite", "", "ok", None),
    ]
    assert tool(thread, 6).changes == (
        FileChange(path="src/login.py", kind="edit", old="TIMEOUT = 5", new="TIMEOUT = 25"),
    )
    assert [c.kind for c in tool(thread, 7).changes] == ["create"]
    assert tool(thread, 8).output == "1 failed: timeout\n"
    assert tool(thread, 12).todos == (
        Todo(text="Raise the timeout", status="done"),
        Todo(text="Write a test", status="in_progress"),
        Todo(text="Tell the user", status="dropped"),
    )
    assert (thread.cwd, thread.model, thread.version) == (
        "/home/dev/proj",
        "fake/fake-model",
        "1.18.33",
    )
    assert (thread.name, thread.context_tokens) == ("Raise the login timeout", 8671)
    assert (thread.started, thread.updated) == (
        "2026-11-22T02:00:59.937Z",
        "2026-11-22T02:01:10.995Z",
    )
    assert (thread.report.unknown, thread.report.broken) == ({}, ())


def test_whose_words_they_are_is_told() -> None:
    """Typed, typed while the agent worked, answered, said by opencode itself, run by the user."""
    told = [(ref, origin) for ref, origin, _ in said(read("tui"))]

    assert told == [
        (1, "typed"), (14, "typed"), (17, "typed"), (20, "typed"), (22, "queued"), (24, "typed"),
        (26, "typed"), (28, "typed"), (29, "harness"), (30, "harness"), (32, "typed"),
        (34, "answer"), (36, "typed"), (37, "typed"), (44, "typed"), (46, "typed"),
    ]  # fmt: skip
    assert by_ref(read("tui"), 34).text == 'asked "Which port?", the user chose "8080"'
    assert by_ref(read("tui"), 29).text.startswith("Called the Read tool")
    command = by_ref(read("tui"), 16)
    assert command.origin == "command"
    assert command.tool is not None
    assert (command.tool.command, command.tool.status) == ("echo user-shell && false", "unknown")


def test_a_skill_is_what_the_user_typed() -> None:
    """opencode records the skill's text in place of its name."""
    thread = read("tui")

    assert by_ref(thread, 46).text == '/globalskill on "src" \nand more'
    assert thread.skills == ("globalskill",)


def test_interruptions_and_errors_stand_behind_what_they_ended() -> None:
    """An aborted command is aborted; a failed request is an error."""
    thread = read("tui")

    assert [(n.after, n.kind) for n in thread.notices] == [
        (19, "interrupted"),
        (36, "error"),
        (38, "interrupted"),
    ]
    assert thread.notices[1].text == "scripted bad request"
    assert calls(thread)[10] == (19, "bash", "sleep 60; echo finished", "aborted", None)
    assert not thread.aborted


def test_entries_before_a_compaction_stay() -> None:
    """It is the summary that opencode went on with."""
    thread = read("tui")
    (summary,) = (e for e in thread.entries if e.kind == "compaction")

    assert (summary.ref, summary.origin, summary.kept_from) == (43, "harness", 0)
    assert summary.text.startswith("## Goal\nCOMPACT-MARKER")
    assert [e.ref for e in thread.entries if not e.compacted] == [43, 44, 45, 46, 47]


def test_undone_messages_keep_their_numbers() -> None:
    """While they can be redone they are in the database, afterwards in its log of events."""
    undone, gone_on = read("undone"), read("tui")

    assert said(undone) == [(1, "typed", "STEP-FAIL please"), (2, "typed", "STEP-SLOW third time please")]  # fmt: skip
    assert (undone.abandoned, gone_on.abandoned) == (4, 4)
    assert undone.aborted
    assert {39, 40, 41, 42}.isdisjoint(e.ref for e in gone_on.entries)


def test_a_sub_agent_has_a_session_of_its_own() -> None:
    """It is kept apart, and can be read by its own path."""
    thread = read("tui")
    (agent,) = thread.background
    (chain,) = thread.sidechains

    assert (agent.kind, agent.label, agent.state, agent.ref) == (
        "agent",
        "Review the change",
        "done",
        10,
    )
    assert (chain.id, chain.path) == (CHILD, str(Path(thread.path).parent / CHILD))
    child = Opencode().read(Path(chain.path))
    assert (child.parent, said(child)) == (TUI, [(1, "typed", "SUBTASK please")])


def test_an_agent_in_the_background_runs_until_its_result_comes(tmp_path: Path) -> None:
    """Its call is over at once; opencode tells the end in the user's name."""
    build = ThreadBuilder("opencode").user("Go").agent("Look around", "done")
    started = build.records[-1]["data"]["state"]
    started["output"] = f'<task id="{started["metadata"]["sessionId"]}" state="running">\n</task>'
    path = tmp_path / "opencode.db" / build.id
    running = Opencode().read(build.write(path))
    build.user("")
    build.records[-1]["data"] |= {
        "synthetic": True,
        "text": f'<task id="{started["metadata"]["sessionId"]}" state="completed">\nDone\n</task>',
    }
    over = Opencode().read(build.write(path))

    assert [(b.state, b.ref) for b in running.background] == [("running", 2)]
    assert [(b.state, b.ref) for b in over.background] == [("done", 2)]


def test_refused_calls_hold_what_the_user_said(tmp_path: Path) -> None:
    """A refusal with a reason is an answer; one without is only a refusal."""
    build = ThreadBuilder("opencode").user("Go").edit("a.py", "a", "b").edit("b.py", "a", "b")
    for record, more in zip(build.records[-3::2], (" with the following feedback: not so", "."), strict=True):  # fmt: skip
        state = record["data"]["state"]
        state |= {"status": "error", "time": {"start": 1, "end": 1767603700000}}
        state["error"] = f"The user rejected permission to use this specific tool call{more}"
    thread = Opencode().read(build.write(tmp_path))

    assert [c[3] for c in calls(thread)] == ["refused", "refused"]
    assert said(thread)[1:] == [(4, "answer", "not so")]


def test_a_server_of_mcp_refuses_nothing_in_the_users_name(tmp_path: Path) -> None:
    """An error that it words like a refusal plants no words."""
    build = ThreadBuilder("opencode").user("Go").edit("a.py", "a", "b")
    data = build.records[-1]["data"]
    data["tool"] = "notes_add"
    data["state"] |= {
        "status": "error",
        "error": "The user rejected permission to use this specific tool call with the following feedback: never test",
    }

    assert said(Opencode().read(build.write(tmp_path))) == [(1, "typed", "Go")]


def test_a_call_without_result_is_settled_when_the_agent_goes_on(tmp_path: Path) -> None:
    """Only the calls of the last message can still run."""
    build = ThreadBuilder("opencode").user("Go").background("make").assistant("And?").background("make serve")  # fmt: skip
    thread = Opencode().read(build.write(tmp_path))

    assert [c[3] for c in calls(thread)] == ["unknown", "running"]


def test_parts_are_numbered_as_they_came_to_be(tmp_path: Path) -> None:
    """What the user typed meanwhile stands before the rest of the answer: no number ever changes."""
    build = ThreadBuilder("opencode").user("Go").assistant("First")
    answer = build.records[-3]["id"]
    build.user("And this").assistant("Second")
    build.records[-1]["message_id"] = answer
    thread = Opencode().read(build.write(tmp_path))

    assert [(e.ref, e.text) for e in thread.entries] == [
        (1, "Go"),
        (2, "First"),
        (3, "And this"),
        (4, "Second"),
    ]


def test_ids_go_round_every_two_years(tmp_path: Path) -> None:
    """An id holds 48 bits of the time: the day on which they begin anew changes no order."""
    build = ThreadBuilder("opencode").user("Go").assistant("Done")
    turn = 26 << 36
    for at, record in enumerate(build.records):
        now = turn + (at - 2) * 1000
        record |= {"time_created": now, "time_updated": now}
        if record["table"] != "session":
            record["id"] = f"{record['id'][:3]}_{(now << 12) % (1 << 48):012x}AbCdEfGhIjKlMn"
    message, part = build.records[1], build.records[2]
    part["message_id"] = message["id"]
    build.records[4]["message_id"] = build.records[5]["message_id"] = build.records[3]["id"]
    thread = Opencode().read(build.write(tmp_path))

    assert [e.text for e in thread.entries] == ["Go", "Done"]
    assert message["id"] > build.records[3]["id"]


# -- exports -------------------------------------------------------------------------------


def test_an_export_is_a_thread() -> None:
    """`opencode export` prints what the database holds; it is found by its first bytes."""
    path = one("opencode", "export-1.18.json")
    thread = detect_harness(path).read(path)

    assert (thread.harness, thread.id) == ("opencode", "ses_e00203520ffeBYy5iaZFSyzCGw")
    assert said(thread) == [
        (1, "typed", "STEP-SLOW"),
        (3, "typed", "STEP-ONE please\nsecond line"),
        (10, "typed", "STEP-TWO"),
    ]
    assert calls(thread) == [
        (5, "write", "hello.txt", "ok", None),
        (7, "bash", "cat hello.txt && echo EXIT-OK", "ok", 0),
        (12, "bash", "ls -la; false", "error", 1),
    ]
    assert [(e.ref, e.kind) for e in thread.entries if e.kind == "compaction"] == [
        (9, "compaction")
    ]


def test_a_file_of_json_is_not_always_an_export(tmp_path: Path) -> None:
    """Its session's id comes first in it; other documents are other programs'."""
    recognises = Opencode().is_thread_file

    assert recognises(Path("x.json"), b'{\n "info": {\n  "id": "ses_1",')
    assert not recognises(Path("x.json"), b'{"sessionId":"1","messages":[{"info":{"id":"ses_1"}}]}')
    assert not recognises(Path("x.json"), b'{"info":{"title":"x"}}')


# -- files ---------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of opencode on a machine of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("OPENCODE_DB", raising=False)
    folder = tmp_path / "opencode"
    folder.mkdir()
    return folder


def test_sessions_are_listed_without_those_of_sub_agents(home: Path) -> None:
    """One thread file a session, those of Kilo as well, which resumes them."""
    path = copied("tui", home)

    assert [f.path for f in Opencode().list_files()] == [path]
    kilo = home.with_name("kilo") / "kilo.db"
    kilo.parent.mkdir()
    shutil.copy(path.parent, kilo)
    assert [f.path for f in Opencode().list_files()] == [path, kilo / path.name]
    assert Opencode().build_resume_command(Opencode().read(kilo / path.name))[0] == "kilo"
    file, _ = Opencode().list_files()
    assert (file.modified, file.bytes) == (1795313348.9, 39 * 8000)


def test_the_environment_moves_the_database(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`OPENCODE_DB` names one, absolute or below the data folder; preview channels have their own."""
    for name in ("opencode.db", "opencode-dev.db", "other.db"):
        (home / name).touch()

    assert [p.name for p in list_databases()] == ["opencode-dev.db", "opencode.db"]
    monkeypatch.setenv("OPENCODE_DB", "mine.db")
    assert list_databases() == [home / "mine.db"]
    monkeypatch.setenv("OPENCODE_DB", "/elsewhere/x.db")
    assert list_databases() == [Path("/elsewhere/x.db")]
    monkeypatch.setenv("OPENCODE_DB", ":memory:")
    assert list_databases() == []


def test_the_head_of_a_session() -> None:
    """A few queries; the words are the user's, as they typed them."""
    head = Opencode().read_head(thread_file(sql("tui")))

    assert head is not None
    assert (head.id, head.name, head.cwd) == (TUI, "Raise the login timeout", "/home/dev/proj")
    assert (
        head.first_words == 'Now please raise the login timeout again, it is "slow" (second line)'
    )
    assert (head.messages, head.context_tokens) == (29, 8384)


def test_a_session_in_which_nobody_spoke_is_not_listed(tmp_path: Path) -> None:
    """A new session has a row and no message."""
    assert Opencode().read_head(thread_file(ThreadBuilder("opencode").write(tmp_path))) is None


def test_a_database_alone_is_read_if_it_holds_one_thread(tmp_path: Path) -> None:
    """Else the message says how many there are, and names the newest."""
    path = copied("tui", tmp_path)
    assert Opencode().read(path.parent).path == str(path)
    changed(path, "INSERT INTO session SELECT 'ses_2', project_id, workspace_id, NULL, slug, "
            "directory, path, title, version, share_url, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, "
            f"NULL, NULL, agent, model, 0, 0, NULL, NULL FROM session WHERE id = '{TUI}'")  # fmt: skip

    with pytest.raises(
        ThreadUnreadable, match=rf"holds 2 threads\. Name one.*\n  {path}\n"
    ) as caught:
        Opencode().read(path.parent)
    assert str(path.parent / "ses_2") in str(caught.value)


# -- nothing changes -----------------------------------------------------------------------


LIVE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA wal_autocheckpoint = 0")
for statement in sys.argv[2:]:
    db.execute(statement).fetchall()
db.execute("UPDATE session SET title = 'In the log' WHERE parent_id IS NULL")
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def running(path: Path, *statements: str) -> Iterator[None]:
    """Another program that has the database open, with a change that is only in its log."""
    command = [sys.executable, "-c", LIVE, str(path.parent), *statements]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        yield
        program.communicate("\n", timeout=30)


def test_reading_beside_a_running_program_sees_its_log_and_changes_no_file(tmp_path: Path) -> None:
    """What is only in the write-ahead log is read; neither the log nor the memory file is touched."""
    path = copied("tui", tmp_path)
    with running(path):
        before = left(tmp_path)
        thread, head = Opencode().read(path), Opencode().read_head(thread_file(path))

        assert thread.name == "In the log"
        assert head is not None
        assert head.name == "In the log"
        assert left(tmp_path) == before
        assert sorted(before) == ["opencode.db", "opencode.db-shm", "opencode.db-wal"]


@pytest.mark.parametrize("gone", [(), ("-shm",)])
def test_a_log_that_a_program_left_behind_is_read(tmp_path: Path, gone: tuple[str, ...]) -> None:
    """opencode leaves its log when it ends; a backup may lack the file beside it."""
    (tmp_path / "live").mkdir()
    (tmp_path / "copy").mkdir()
    path = copied("tui", tmp_path / "live")
    with running(path):
        for file in (tmp_path / "live").iterdir():
            if not file.name.endswith(gone or ("-none",)):
                shutil.copy(file, tmp_path / "copy")
    copy = tmp_path / "copy" / "opencode.db" / TUI
    before = left(tmp_path / "copy")

    assert Opencode().read(copy).name == "In the log"
    assert left(tmp_path / "copy") == before


def test_a_closed_database_gets_no_company(tmp_path: Path) -> None:
    """Without a log none is made, nor is an empty one filled."""
    path = copied("tui", tmp_path)
    with running(path, "PRAGMA wal_autocheckpoint = 1"):
        pass
    (tmp_path / "opencode.db-wal").touch()
    before = left(tmp_path)

    assert Opencode().read(path).name == "In the log"
    assert left(tmp_path) == before


def test_a_database_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    """Every reading beside a busy program is one state of the thread, and a beginning of the last."""
    build = ThreadBuilder("opencode").user("Go")
    path = build.write(tmp_path)
    program = (
        "import sqlite3, sys, json\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA journal_mode = WAL'); db.execute('PRAGMA wal_autocheckpoint = 20')\n"
        "(session,), = db.execute('SELECT id FROM session')\n"
        "for n in range(300):\n"
        "    at = 1767603700000 + n; key = '%012xAbCdEfGhIjKlMn' % ((at << 12) % (1 << 48))\n"
        "    db.execute('BEGIN')\n"
        "    data = json.dumps({'role': 'assistant', 'time': {'created': at}})\n"
        "    db.execute('INSERT INTO message VALUES (?,?,?,?,?)', ('msg_' + key, session, at, at, data))\n"
        "    data = json.dumps({'type': 'text', 'text': f'Answer {n} ' + 'x' * 900})\n"
        "    db.execute('INSERT INTO part VALUES (?,?,?,?,?,?)', ('prt_' + key, 'msg_' + key, session, at, at, data))\n"
        "    db.execute('COMMIT')\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(path.parent)])
    seen = []
    while writer.poll() is None:
        seen.append(Opencode().read(path))
    whole = Opencode().read(path)

    assert writer.returncode == 0
    assert len(whole.entries) == 301
    assert all(t.entries == whole.entries[: len(t.entries)] for t in seen)


def test_a_database_that_is_closed_while_it_is_copied_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program takes the log in and away between the look at it and the copy."""
    path = ThreadBuilder("opencode").user("Go").agent("Done").write(tmp_path)
    whole = Opencode().read(path)
    program = (
        "import os, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1])\n"
        "db.execute('PRAGMA journal_mode = WAL'); db.execute('UPDATE session SET directory = ?', ('/new',))\n"
        "db.commit(); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path.parent)], check=False)
    path.parent.with_name(path.parent.name + "-shm").unlink()
    copies = []

    def copyfile(source: str, target: str) -> None:
        if source.endswith("-wal"):
            with closing(sqlite3.connect(path.parent)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        Path(target).write_bytes(Path(source).read_bytes())
        copies.append(source)

    monkeypatch.setattr("tasuki.harness.opencode.store.shutil.copyfile", copyfile)

    thread = Opencode().read(path)

    assert copies == [str(path.parent)]
    assert (thread.cwd, thread.entries) == ("/new", whole.entries)


# -- what may be wrong ---------------------------------------------------------------------


def _cut(path: Path) -> None:
    os.truncate(path.parent, path.parent.stat().st_size // 3)


def _text(path: Path) -> None:
    path.parent.write_text("not a database at all")


def _zeros(path: Path) -> None:
    path.parent.write_bytes(b"SQLite format 3\0" + bytes(9000))


def _no_parts(path: Path) -> None:
    changed(path, "DROP TABLE part")


def _no_session(path: Path) -> None:
    changed(path, "DELETE FROM session")


def _other_schema(path: Path) -> None:
    changed(path, "ALTER TABLE message RENAME COLUMN data TO body")


def _gone(path: Path) -> None:
    path.parent.unlink()


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (_cut, "malformed"), (_text, "not a database"), (_zeros, "not a database"),
        (_no_parts, "no such table"), (_no_session, "no thread"), (_other_schema, "no such column"),
        (_gone, "vanished"),
    ],
)  # fmt: skip
def test_a_broken_database_is_refused_with_its_path(
    tmp_path: Path, break_it: Callable[[Path], None], reason: str
) -> None:
    """The message names the thread and what is wrong; a list passes it over."""
    path = copied("tui", tmp_path)
    break_it(path)

    with pytest.raises(ThreadUnreadable, match=reason) as caught:
        Opencode().read(path)
    assert str(path) in str(caught.value)
    if path.parent.exists():
        assert Opencode().read_head(thread_file(path)) is None


def test_a_locked_database_is_waited_for_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another program holds a lock for long, the user is told to try again."""
    monkeypatch.setattr("tasuki.harness.opencode.store.PATIENCE", 0.1)
    path = copied("tui", tmp_path)
    # The log is there, and whoever has the lock keeps the memory file to itself.
    (tmp_path / "opencode.db-shm").touch()
    exclusive = ("PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT")

    with running(path, *exclusive), pytest.raises(ThreadUnreadable, match=r"locked.*Try again"):
        Opencode().read(path)


def test_rows_of_any_content_are_read_or_reported(tmp_path: Path) -> None:
    """Broken JSON, wrong types and parts of nobody cost only themselves."""
    path = copied("tui", tmp_path)
    whole = Opencode().read(path)
    ids = ("msg_2010111bf0010pXwFqiHg7uRxB", "prt_20101127e001upPt8D0OzOLzki", "prt_20101ddde0012HFqp8MZbluIFa")  # fmt: skip
    changed(path, "UPDATE message SET data = '{\"role\":7}' WHERE id = ?", ids[0])
    changed(path, "UPDATE part SET data = 12 WHERE id = ?", ids[1])
    changed(path, "UPDATE part SET data = CAST(x'7b22747970' AS TEXT) WHERE id = ?", ids[2])
    changed(path, "UPDATE session SET time_updated = 'soon', title = x'ff', revert = '[' WHERE id = ?", TUI)  # fmt: skip
    thread = Opencode().read(path)

    assert len(thread.report.broken) == 3
    assert thread.report.unknown == {"part without a message": 1}
    assert len(thread.entries) == len(whole.entries) - 3
    assert thread.name == "\\xff"
    assert thread.updated >= thread.started


def test_another_programs_database_is_not_recognised(tmp_path: Path) -> None:
    """Only a database with opencode's tables, or of its name, is one."""
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as db:
        db.execute("CREATE TABLE session (id TEXT)")
    with pytest.raises(ThreadUnreadable, match="not a thread of a known harness"):
        detect_harness(tmp_path / "mine.sqlite")
    path = copied("tui", tmp_path)
    renamed = path.parent.rename(tmp_path / "backup.sqlite")

    assert detect_harness(renamed / path.name).name == "opencode"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_database_without_permission_is_refused(tmp_path: Path) -> None:
    """The reason is the system's own word."""
    path = copied("tui", tmp_path)
    path.parent.chmod(0)

    with pytest.raises(ThreadUnreadable, match="Permission denied"):
        Opencode().read(path)


def test_ten_thousand_sessions_are_listed_in_a_moment(home: Path) -> None:
    """The messages are counted in an index; nothing of what was said is read."""
    path = copied("tui", home)
    with closing(sqlite3.connect(path.parent)) as db:
        columns = [c[1] for c in db.execute("PRAGMA table_info(session)")][1:]
        names = ", ".join(columns)
        db.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
            f" INSERT INTO session (id, {names}) SELECT 'ses_' || i, {names} FROM session, n WHERE id = ?",
            (TUI,),
        )
        db.commit()
    start = time.perf_counter()
    files = list(Opencode().list_files())

    assert len(files) == 10_001
    assert time.perf_counter() - start < 3


# -- successors ----------------------------------------------------------------------------


def request(**given: object) -> LaunchRequest:
    """What a user wants of a successor."""
    known = {
        "handoff": made(),
        "brief": "- the whole brief",
        "context": "past",
        "cwd": "/home/dev/proj",
    }
    return LaunchRequest(**{**known, **given})  # type: ignore[arg-type]


SCREEN = """
  ┃  Ask anything… "What is the tech stack of this project?"
  ┃
  ┃  Build · Fake Model Fake
  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
                                   tab agents  ctrl+p commands
"""


def test_a_brief_is_pasted_once_keys_are_taken() -> None:
    """opencode has no unsent prompt, and loses what is typed before its input stands there."""
    plan = Opencode().plan(request(arguments=("--agent", "plan")))

    assert plan.argv == ("opencode", "--agent", "plan")
    assert plan.paste == "- the whole brief"
    assert re.search(plan.ready, SCREEN)
    assert not re.search(plan.ready, SCREEN.replace("Ask anything…", "[Pasted ~7 lines]"))


def test_a_brief_that_is_sent_is_an_argument() -> None:
    """A prompt that begins with `-` is no option."""
    plan = Opencode().plan(request(send=True, model="test/model"))

    assert plan.argv == ("opencode", "--model", "test/model", "--prompt=- the whole brief")
    assert plan.paste == ""


def test_the_way_back_and_the_sign_of_skills(monkeypatch: pytest.MonkeyPatch) -> None:
    """`opencode -s ID` and `/name`; skills of Claude Code and of `.agents` are found too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/config")
    thread = Thread(harness="opencode", id="ses_1", path="/x/opencode.db/ses_1")

    assert Opencode().build_resume_command(thread) == ("opencode", "-s", "ses_1")
    assert Opencode().format_skill_command("review") == "/review"
    folders = Opencode().list_skill_folders(Path("/p"))
    assert {Path("/config/opencode/skills"), Path("/p/.opencode/skill"), Path("/p/.claude/skills"), Path("/p/.agents/skills")} <= set(folders)  # fmt: skip


@pytest.mark.parametrize("path", corpus("opencode"), ids=lambda p: p.name[:20])
def test_threads_of_the_corpus_read_whole(path: Path, tmp_path: Path) -> None:
    """No message of a real session is broken or unknown, and every call has its result."""
    file = unzipped(path, tmp_path)
    thread = detect_harness(file).read(file)
    exported = json.loads(file.read_bytes())

    assert thread.harness == "opencode"
    assert (thread.report.broken, thread.report.unknown) == ((), {})
    assert [e.ref for e in thread.entries] == list(range(1, len(thread.entries) + 1))
    parts = [p for m in exported["messages"] for p in m["parts"] if p["type"] == "tool"]
    assert len(calls(thread)) == len(parts)
    assert not [c for c in calls(thread) if c[3] in ("running", "unknown")]


def test_what_opencode_2_keeps_is_never_left_out_silently(tmp_path: Path) -> None:
    """Threads in its tables are noted, and one that went on there says that its end is missing."""
    path = ThreadBuilder("opencode").user("Go").assistant("Done").write(tmp_path)
    assert Opencode().read(path).report.lacks_end == ""
    changed(path, "CREATE TABLE session_v2 (id text, title text)")
    changed(path, "INSERT INTO session_v2 VALUES (?, 'Later')", path.name)
    changed(path, "INSERT INTO session_v2 VALUES ('ses_new', 'New')")

    assert "went on" in Opencode().read(path).report.lacks_end
    with collect_unreadable() as notes:
        list_sessions(path.parent)
    assert notes == [f"{path.parent} holds 2 threads of opencode 2, whose tables are not read."]


def test_an_export_of_opencode_2_is_not_read_as_an_empty_thread(tmp_path: Path) -> None:
    """It says what it is."""
    info = {"id": "ses_1", "location": {"directory": "/p"}, "time": {"created": 1}}
    message = {"id": "msg_1", "type": "user", "text": "Go"}
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"info": info, "messages": [message]}, indent=2))

    with pytest.raises(ThreadUnreadable, match="not a thread of a known harness"):
        Opencode().read(path)
