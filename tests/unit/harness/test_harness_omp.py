"""oh-my-pi: the title slot, artifacts beside the file, hashline edits, todos, successors."""

import json
from pathlib import Path

import pytest
from fixture_threads import by_ref, calls, one, said, samples, thread_file
from handoffs import made
from msgspec.structs import replace

from tasuki.harness.pi_v3.adapter import Omp, build_omp_folder_name
from tasuki.harness.protocol import LaunchRequest
from tasuki.harness.registry import detect_harness
from tasuki.model import FileChange, Predecessor, Thread, Todo
from tasuki_testing import ThreadBuilder


def read(pattern: str) -> Thread:
    """A captured session, by a part of its path."""
    return Omp().read(one("omp", pattern))


def test_the_title_slot_is_no_header() -> None:
    """Line 1 holds the title, line 2 the header; the title is the name."""
    thread = read("tui-before-handoff.jsonl")

    assert thread.name == "I will write the file first"
    assert thread.id == "01a1ffd7-83c3-7575-830a-f3fef87b4494"
    assert said(thread) == [(1, "typed", "STEP-ONE please\nsecond line"), (7, "typed", "STEP-SLOW")]
    assert calls(thread) == [
        (3, "write", "hello.txt", "ok", None),
        (5, "bash", "cat hello.txt && echo EXIT-OK", "ok", 0),
    ]
    assert thread.model == "fake/fake-model"


@pytest.mark.parametrize("path", samples("omp"), ids=lambda p: p.name[:30])
def test_sessions_of_omp_are_told_from_those_of_pi(path: Path) -> None:
    """Wherever a file lies, its records say whose it is."""
    assert detect_harness(path).name == "omp"


def test_the_wall_time_is_no_output() -> None:
    """omp adds the time a command took; exit code and time are taken off the output."""
    thread = read("tui/*16-483Z*.jsonl")
    call = by_ref(thread, 22).tool

    assert call is not None
    assert (call.exit_code, call.status) == (1, "error")
    assert call.output.endswith("hello.txt")


def test_the_branch_after_three_compactions_has_none() -> None:
    """Compactions lie on the branch that was left: nothing of this one is compacted."""
    thread = read("tui/*27-726Z*.jsonl")

    assert thread.parent == "01a1ffd7-83c3-7575-830a-f3fef87b4494"
    assert [e.ref for e in thread.entries] == [1, 2, 3, 4, 5, 6, 20, 21, 22, 23, 24, 25]
    assert not any(e.compacted for e in thread.entries)


def test_compactions_name_what_was_kept(tmp_path: Path) -> None:
    """Cut before the branching, the file holds a handoff compaction and a soft one."""
    lines = one("omp", "tui/*16-483Z*.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "before.jsonl"
    path.write_bytes(b"".join(lines[:28]))
    found = [e for e in Omp().read(path).entries if e.kind == "compaction"]

    assert [(e.ref, e.kept_from) for e in found] == [(9, 8), (14, 13), (19, 18)]
    assert found[1].text.startswith("## Goal\nOMP-HANDOFF-DOC-MARKER: greeting file.")
    assert [e.compacted for e in found] == [True, True, False]


def test_the_old_handoff_of_omp_is_understood() -> None:
    """omp 14 asked in the old session and wrote the document into a new one."""
    old, new = read("omp14-handoff/*02-539Z*"), read("omp14-handoff/*17-652Z*")

    assert [e.text for e in old.entries if e.kind == "user"] == ["STEP-ONE"]
    assert old.notices[0].text.startswith("<critical>\nWrite a handoff document")
    assert by_ref(new, 1).origin == "handoff"
    assert by_ref(old, 7).text in by_ref(new, 1).text
    assert new.parent.endswith("02-539Z_01a1ffda-0c6b-75a4-ba97-fe4d4d819e85.jsonl")


def test_an_interrupted_session_is_aborted() -> None:
    """Escape during a command: the call is aborted, the thread too."""
    thread = read("bridge-successor-and-interrupt.jsonl")

    assert thread.aborted
    assert calls(thread) == [(4, "bash", "sleep 30; echo finished", "aborted", None)]


def test_what_lies_beside_a_session_belongs_to_it(tmp_path: Path) -> None:
    """Files in the folder of the same name are artifacts; records of sub-agents are sidechains."""
    path = ThreadBuilder("omp").user("Hi").write(tmp_path)
    beside = path.with_suffix("")
    (beside / "local").mkdir(parents=True)
    (beside / "local" / "PLAN.md").write_text("plan")
    (beside / "0-Review.jsonl").write_text("{}\n")
    thread = Omp().read(path)

    assert thread.artifacts == (str(beside / "local" / "PLAN.md"),)
    assert [(s.id, s.path) for s in thread.sidechains] == [
        ("0-Review", str(beside / "0-Review.jsonl"))
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[src/a.ts#1A2B]\nSWAP 3.=3:\n+let x\n+let y\n", [("src/a.ts", "let x\nlet y")]),
        ("@src/a.ts\n4th..5ab\n+new\n", [("src/a.ts", "new")]),
        ("[a.ts#11]\n+one\n[b.ts#22]\n+two\n", [("a.ts", "one"), ("b.ts", "two")]),
        ("*** Begin Patch\n*** Add File: n.py\n+x\n*** End Patch", [("n.py", "x")]),
        ("free text", []),
    ],
)
def test_hashline_edits_name_their_files(
    given: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Path and new text are read from the sections of an edit."""
    build = ThreadBuilder("omp").user("Go").edit("x", "a", "b")
    build.records[-2]["message"]["content"][0]["arguments"] = {"input": given}
    (call,) = [e.tool for e in Omp().read(build.write(tmp_path)).entries if e.tool]

    assert [(c.path, c.new) for c in call.changes] == expected
    assert call.paths == tuple(path for path, _ in expected)


def test_an_edit_by_text_is_read_like_that_of_pi(tmp_path: Path) -> None:
    """Old and new text are there where the call names them."""
    build = ThreadBuilder("omp").user("Go").edit("a.py", "old", "new")
    (call,) = [e.tool for e in Omp().read(build.write(tmp_path)).entries if e.tool]

    assert call.changes == (FileChange(path="a.py", kind="edit", old="old", new="new"),)


def test_todos_come_from_the_result(tmp_path: Path) -> None:
    """The call names one operation; its result holds the whole list."""
    build = ThreadBuilder("omp").user("Go").todos(("One", "completed"), ("Two", "abandoned"))
    (call,) = [e.tool for e in Omp().read(build.write(tmp_path)).entries if e.tool]

    assert call.todos == (Todo("One", "done"), Todo("Two", "dropped"))


def test_sub_agents_run_until_their_result(tmp_path: Path) -> None:
    """A task that returned is done; one without result runs."""
    build = ThreadBuilder("omp").user("Go").agent("Read").agent("Test", "failed")
    thread = Omp().read(build.agent("Write", "running").write(tmp_path))

    assert [(b.label, b.state) for b in thread.background] == [
        ("Read", "done"),
        ("Test", "failed"),
        ("Write", "running"),
    ]


def test_the_head_of_a_captured_session() -> None:
    """The title slot names the thread."""
    head = Omp().read_head(thread_file(one("omp", "tui/*16-483Z*.jsonl")))

    assert head is not None
    assert (head.name, head.cwd) == ("I will write the file first", "/home/dev/proj/omptui")
    assert head.first_words == "STEP-ONE please second line"


def test_folders_are_named_as_omp_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative to home, to the temporary folder, else the whole path; links are resolved."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    link = tmp_path / "link"
    (tmp_path / "home" / "a").mkdir(parents=True)
    link.symlink_to(tmp_path / "home" / "a")

    assert build_omp_folder_name(str(tmp_path / "home" / "work" / "x")) == "-work-x"
    assert build_omp_folder_name(str(tmp_path / "home")) == "-"
    assert build_omp_folder_name(str(tmp_path / "tmp" / "y")) == "-tmp-y"
    assert build_omp_folder_name("/srv/data") == "--srv-data--"
    assert build_omp_folder_name(str(link)) == "-a"


def test_sessions_are_found_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~/.omp/agent/sessions`, whatever pi's variable says of pi."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "pi"))
    folder = tmp_path / ".omp" / "agent" / "sessions" / "-proj"
    folder.mkdir(parents=True)
    path = ThreadBuilder("omp", str(tmp_path / "proj")).user("Hi").write(folder)

    assert [f.path for f in Omp().list_files(tmp_path / "proj")] == [path]
    assert [f.path for f in Omp().list_files()] == [path]


def request(**given: object) -> LaunchRequest:
    """What a user wants of a successor."""
    known = {"handoff": made(), "brief": "whole brief", "context": "past", "cwd": "/srv/proj"}
    return LaunchRequest(**{**known, **given})  # type: ignore[arg-type]


def test_a_successor_is_a_session_file_and_a_goal() -> None:
    """Header first, one custom message by the agent, the goal unsent in the input."""
    origin = Predecessor(harness="omp", thread_id="t", path="/s/t.jsonl")
    plan = Omp().plan(request(handoff=replace(made(goal="Go on here"), predecessor=origin)))
    (file,) = plan.files
    start, message = (json.loads(line) for line in file.content.splitlines())

    assert plan.argv == ("omp", "--resume", file.path)
    assert Path(file.path).parent.name == "--srv-proj--"
    assert plan.paste == "Go on here"
    assert (start["type"], start["parentSession"]) == ("session", "/s/t.jsonl")
    assert (message["type"], message["parentId"]) == ("custom_message", None)
    assert (message["attribution"], message["customType"]) == ("agent", "handoff")


def test_the_way_back() -> None:
    """`omp --resume FILE`."""
    assert Omp().build_resume_command(Thread(harness="omp", id="a", path="/x.jsonl")) == (
        "omp",
        "--resume",
        "/x.jsonl",
    )
