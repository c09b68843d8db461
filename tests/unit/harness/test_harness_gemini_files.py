"""Gemini CLI: the documents of older versions, where sessions lie, and what a list shows of them."""

import contextlib
import hashlib
import json
import shutil
from pathlib import Path

import pytest
from fixture_threads import calls, one, said, thread_file

from tasuki.errors import ThreadUnreadable
from tasuki.harness.gemini.adapter import Gemini
from tasuki.harness.registry import detect_harness
from tasuki.model import Thread
from tasuki_testing import ThreadBuilder


def read(name: str) -> Thread:
    """A captured session."""
    return Gemini().read(one("gemini", name))


def test_a_document_of_035_is_read() -> None:
    """One JSON document, in which an empty remark is all that is left of `/compress`."""
    thread = read("v35.json")

    assert [s[2] for s in said(thread)] == [
        "STEP-ONE please", "STEP-TOOLS now", "STEP-SLEEP", "STEP-AFTER it",
        "look at @src/login.py STEP-AT",
    ]  # fmt: skip
    assert [(e.ref, e.text) for e in thread.entries if e.kind == "compaction"] == [(32, "")]
    assert calls(thread)[:2] == [
        (3, "write_file", "src/login.py", "ok", None),
        (5, "run_shell_command", "cat src/login.py && echo EXIT-OK", "ok", 0),
    ]
    (todos,) = [e.tool.todos for e in thread.entries if e.tool and e.tool.todos]
    assert [t.status for t in todos] == [
        "done", "in_progress", "pending", "dropped",
    ]  # fmt: skip
    assert (calls(thread)[-1][3], thread.notices[-1].kind) == ("aborted", "interrupted")
    assert thread.report.lines == 23


def test_a_path_with_the_hash_of_the_project_is_its_folder() -> None:
    """Older sessions name their folder nowhere; its hash is that of a path in some output."""
    document = json.loads(one("gemini", "v35.json").read_bytes())

    assert document["projectHash"] == hashlib.sha256(b"/home/dev/proj").hexdigest()
    assert "directories" not in document
    assert read("v35.json").cwd == "/home/dev/proj"


def test_entries_know_where_their_message_begins() -> None:
    """Of logs and documents alike."""
    for name in ("headless.jsonl", "v35.json"):
        content = one("gemini", name).read_bytes()
        for entry in read(name).entries:
            assert content[entry.offset : entry.offset + 1] == b"{"
            if entry.text:
                assert entry.id.encode() in content[entry.offset : entry.offset + 200]


def test_a_document_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """Whole messages are kept, the last one is not yet there, and no line is broken."""
    content = one("gemini", "v35.json").read_bytes()
    whole = [e.text for e in read("v35.json").entries]
    path = tmp_path / "session-x.json"
    for at in range(len(content) // 3, len(content) - 200, 997):
        path.write_bytes(content[:at])
        thread = Gemini().read(path)

        assert [e.text for e in thread.entries] == whole[: len(thread.entries)]
        assert thread.report.truncated_tail
        assert thread.report.broken == ()


def test_a_damaged_message_of_a_document_is_lost_alone(tmp_path: Path) -> None:
    """The next message begins on a line of its own."""
    lines = one("gemini", "v35.json").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if "STEP-TOOLS now" in line)
    lines[at] = '          "text": "STEP-TOOLS now'
    path = tmp_path / "session-x.json"
    path.write_text("\n".join(lines))
    thread = Gemini().read(path)

    assert [s[2] for s in said(thread)][:2] == ["STEP-ONE please", "STEP-SLEEP"]
    assert [b.line for b in thread.report.broken] == [6]


@pytest.mark.parametrize(
    "content",
    [
        b'{\n  "sessionId": "s",\n  "projectHash": "h",\n  "messages": [\n',
        b'{\n  "sessionId": "s",\n  "projectHash": "h",\n  "messages": 5\n}',
        b'{\n  "sessionId": "s",\n  "projectHash": "h"\n}',
        b'{\n  "sessionId": 5,\n  "projectHash": "h",\n  "messages": []\n}',
        b'{\n  "messages": []\n}',
        b'{\n  "sessionId": "s",\n  "projectHash": "h",\n  "messages": [' + b"[" * 100_000,
        b'{\n  "sessionId": "s", "messages": [5, null, {}, "x", [[]]], "projectHash": "h"\n}',
        b"{\n" + b"\xff" * 100,
    ],
)
def test_nonsense_in_a_document_gives_a_thread_or_a_reason(content: bytes, tmp_path: Path) -> None:
    """Nothing but a Thread without entries or ThreadUnreadable comes out."""
    path = tmp_path / "session-x.json"
    path.write_bytes(content)
    with contextlib.suppress(ThreadUnreadable):
        assert Gemini().read(path).entries == ()
    assert Gemini().read_head(thread_file(path)) is None


def test_a_document_on_one_line_is_read_too(tmp_path: Path) -> None:
    """Some tool may have taken the line ends out."""
    path = tmp_path / "session-x.json"
    path.write_text(json.dumps(json.loads(one("gemini", "v35.json").read_bytes())))

    assert len(Gemini().read(path).entries) == len(read("v35.json").entries)


# -- where sessions lie --------------------------------------------------------------------


def test_the_heads_of_captured_sessions() -> None:
    """Both ends say folder, words and size of the context, of logs and of documents."""
    head = Gemini().read_head(thread_file(one("gemini", "compressed.jsonl")))
    older = Gemini().read_head(thread_file(one("gemini", "v35.json")))

    assert head is not None
    assert (head.cwd, head.first_words) == ("/home/dev/proj", "STEP-ONE please second line")
    assert (head.messages, head.context_tokens) == (9, 12690)
    assert older is not None
    assert (older.cwd, older.first_words) == ("/home/dev/proj", "STEP-ONE please")
    assert (older.messages, older.context_tokens) == (16, 11805)


def test_the_summary_of_a_session_is_its_name(tmp_path: Path) -> None:
    """Gemini CLI puts one there when it starts the next time."""
    patch = {"$set": {"summary": "Raise the login\ntimeout"}}
    log = ThreadBuilder("gemini").user("Go").raw(**patch).write(tmp_path)
    build = ThreadBuilder("gemini-json").user("Go")
    build.records[0]["summary"] = "Raise the login\ntimeout"
    for path in (log, build.write(tmp_path)):
        head = Gemini().read_head(thread_file(path))

        assert head is not None
        assert head.name == Gemini().read(path).name == "Raise the login timeout"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of Gemini CLI."""
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    return tmp_path / ".gemini"


def session(folder: Path, seed: int, format: str = "gemini") -> Path:
    """A session in a project's folder."""
    (folder / "chats").mkdir(parents=True, exist_ok=True)
    return ThreadBuilder(format, "/home/dev/proj", seed).user("Hi").write(folder / "chats")


def test_sessions_are_found_by_folder(home: Path) -> None:
    """By the mark in a project's folder, by the registry, or by what older versions say themselves."""
    marked = session(home / "tmp" / "proj", 1)
    (marked.parent.parent / ".project_root").write_text("/home/dev/proj")
    named = session(home / "tmp" / "proj-1", 2)
    hashed = session(home / "tmp" / hashlib.sha256(b"/home/dev/old").hexdigest(), 3, "gemini-json")
    projects = {"/home/dev/other": "proj-1", "/home/dev/gone": "proj-9"}
    (home / "projects.json").write_text(json.dumps({"projects": projects}))

    assert {f.path for f in Gemini().list_files()} == {marked, named, hashed}
    folders = {f.path: head.cwd for f in Gemini().list_files() if (head := Gemini().read_head(f))}
    assert folders == {marked: "/home/dev/proj", named: "/home/dev/other", hashed: "/home/dev/proj"}
    assert Gemini().read(named).cwd == "/home/dev/other"
    assert {detect_harness(f.path).name for f in Gemini().list_files()} == {"gemini"}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"projects": 5}', b'{"projects": {"a": 5}}']
)
def test_a_damaged_registry_hides_nothing(content: bytes, home: Path) -> None:
    """The sessions themselves are still there."""
    path = session(home / "tmp" / "proj", 1)
    (home / "projects.json").write_bytes(content)

    assert [f.path for f in Gemini().list_files()] == [path]
    assert Gemini().read(path).cwd == "/home/dev/proj"


def test_a_document_that_was_resumed_is_listed_once(home: Path) -> None:
    """Gemini CLI leaves it beside the log that it became."""
    path = session(home / "tmp" / "proj", 1, "gemini-json")
    log = path.with_suffix(".jsonl")
    shutil.copy(one("gemini", "headless.jsonl"), log)

    assert [f.path for f in Gemini().list_files()] == [log]
