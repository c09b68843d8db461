"""pi: session files of 0.73 to 1.5 and of 2025, branches, compactions, and successors."""

import json
import re
from pathlib import Path

import pytest
from fixture_threads import by_ref, calls, corpus, one, said, thread_file, unzipped
from handoffs import made
from msgspec.structs import replace

from tasuki.harness.pi_v3.adapter import Pi
from tasuki.harness.pi_v3.format import create_id
from tasuki.harness.pi_v3.head import build_folder_name
from tasuki.harness.protocol import LaunchRequest
from tasuki.harness.registry import detect_harness
from tasuki.model import FileChange, Predecessor, Thread, ToolCall
from tasuki.typed_prompts import HANDOFF_CLOSING
from tasuki_testing import ThreadBuilder

STEP_ONE = [
    (3, "write", "hello.txt", "ok", None),
    (5, "bash", "cat hello.txt && echo EXIT-OK", "ok", 0),
]


def read(pattern: str) -> Thread:
    """A captured session, by a part of its path."""
    return Pi().read(one("pi", pattern))


def tool(thread: Thread, ref: int) -> ToolCall:
    """The call of an entry."""
    call = by_ref(thread, ref).tool
    assert call is not None
    return call


@pytest.mark.parametrize("version", ["pi73", "pi87", "pi15"])
def test_sessions_of_three_versions_are_read_alike(version: str) -> None:
    """0.73, 0.87 and 1.5 write the same tree, with and without system messages."""
    thread = read(f"headless-{version}.jsonl")

    assert said(thread) == [(1, "typed", "STEP-ONE please")]
    assert calls(thread) == STEP_ONE
    assert tool(thread, 3).changes == (
        FileChange(path="hello.txt", kind="create", new="hello from the fake model\n"),
    )
    assert (thread.model, thread.thinking) == ("fake/fake-model", "off")
    assert thread.report.unknown == {}


def test_the_active_branch_is_the_walk_from_the_last_line() -> None:
    """Entries of a branch that was left keep their refs, but are not in the thread."""
    thread = read("tui15-compaction-branch-label.jsonl")

    assert [e.ref for e in thread.entries] == [1, 2, 3, 4, 5, 6, 20, 21, 22, 23]
    assert thread.abandoned == 13
    assert said(thread) == [
        (1, "typed", "STEP-ONE please write the file\n(second line of the prompt)"),
        (20, "typed", "STEP-TWO on the other branch"),
    ]
    assert calls(thread)[2:] == [(22, "bash", "ls -la; false", "error", 1)]
    assert "Command exited" not in tool(thread, 22).output
    assert thread.name == "Greeting work"
    assert [(n.after, n.kind) for n in thread.notices] == [(19, "context")]
    assert thread.notices[0].text.startswith("The user explored a different conversation branch")


def test_the_branch_that_was_left_was_the_thread_before(tmp_path: Path) -> None:
    """Cut before the branching, the file shows the user's own commands and the compaction."""
    lines = one("pi", "tui15-compaction-branch-label.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "before.jsonl"
    path.write_bytes(b"".join(lines[:24]))
    thread = Pi().read(path)

    assert thread.abandoned == 0
    assert [(e.ref, e.kept_from) for e in thread.entries if e.kind == "compaction"] == [(15, 10)]
    assert [c for c in calls(thread) if c[1] == "!"] == [
        (13, "!", "echo user-bash-output", "ok", 0),
        (14, "!", "echo hidden-user-bash", "ok", 0),
    ]
    assert [by_ref(thread, r).origin for r in (13, 14)] == ["command", "command"]
    assert tool(thread, 18).changes == (
        FileChange(path="hello.txt", kind="edit", old="hello from", new="HELLO from"),
    )


def test_a_fork_names_its_parent() -> None:
    """`/fork` copies the branch; the header points to the file it came from."""
    thread = read("tui15-forked.jsonl")

    assert thread.parent.endswith("01a1ffd2-2ad2-7258-a34a-f7339ab9bf0b.jsonl")
    assert len(thread.entries) == 10


def test_records_written_twice_are_read_once() -> None:
    """pi 0.73 appends header and entries again when it resumes a hand-written file."""
    thread = read("handwritten-pi73-after.jsonl")

    assert [(ref, origin) for ref, origin, _ in said(thread)] == [(1, "handoff"), (2, "typed")]
    assert len(thread.entries) == 3
    assert thread.report.lines == 9


def test_a_handoff_is_told_from_what_was_typed() -> None:
    """The custom message of a handoff is a user entry of its own origin."""
    thread = read("bridge-pi15-successor.jsonl")

    assert [(ref, origin) for ref, origin, _ in said(thread)] == [(1, "handoff"), (2, "typed")]
    assert said(thread)[0][2].startswith("<handoff-context>\nEXT-DOC-MARKER")


def test_interruptions_and_errors_are_notices() -> None:
    """An aborted call is aborted; failed attempts leave no entry."""
    thread = read("interrupt-and-error.jsonl")

    assert [(n.after, n.kind) for n in thread.notices] == [
        (9, "interrupted"),
        (10, "error"),
        (10, "error"),
    ]
    assert calls(thread)[-1] == (9, "bash", "sleep 30; echo finished", "aborted", None)
    assert not thread.aborted


def test_context_use_is_that_of_the_last_answer() -> None:
    """Cached tokens count; an answer without usage does not."""
    assert read("headless-pi15.jsonl").context_tokens == 1513
    assert read("interrupt-and-error.jsonl").context_tokens == 1601


def test_an_old_linear_file_is_read(tmp_path: Path) -> None:
    """Files of 2025 have no ids; a compaction counts the lines of the file."""
    user = {"role": "user", "content": [{"type": "text", "text": "Go"}]}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "Done"}], "model": "m"}
    records = [
        {"type": "session", "id": "s", "timestamp": "2025-12-01T00:00:00Z", "cwd": "/p",
         "provider": "a", "modelId": "m", "thinkingLevel": "high", "branchedFrom": "/old.jsonl"},
        {"type": "message", "timestamp": "2025-12-01T00:00:01Z", "message": user},
        {"type": "message", "timestamp": "2025-12-01T00:00:02Z", "message": reply},
        {"type": "message", "timestamp": "2025-12-01T00:00:03Z", "message": user},
        {"type": "compaction", "timestamp": "2025-12-01T00:00:04Z", "summary": "S",
         "firstKeptEntryIndex": 3, "tokensBefore": 9},
        {"type": "message", "timestamp": "2025-12-01T00:00:05Z", "message": user},
    ]  # fmt: skip
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    thread = detect_harness(path).read(path)

    assert (thread.harness, thread.parent, thread.thinking) == ("pi", "/old.jsonl", "high")
    assert [(e.ref, e.kind, e.compacted) for e in thread.entries] == [
        (1, "user", True),
        (2, "assistant", True),
        (3, "user", True),
        (4, "compaction", False),
        (5, "user", False),
    ]
    assert by_ref(thread, 4).kept_from == 3


def test_a_removed_entry_is_not_in_the_thread(tmp_path: Path) -> None:
    """`context_edit` without replacement takes its target out; the number stays."""
    build = ThreadBuilder("pi").user("One").assistant("Two")
    target = build.records[-1]["id"]
    build.raw(type="context_edit", id="ffff0001", parentId=target, targetId=target,
              replacement=None)  # fmt: skip
    thread = Pi().read(build.write(tmp_path))

    assert [e.ref for e in thread.entries] == [1]
    assert thread.abandoned == 1


def test_skills_are_named_in_the_order_of_use(tmp_path: Path) -> None:
    """`/skill:x`, typed or expanded by pi, is what the user said."""
    block = '<skill name="tdd" location="/s/tdd.md">\nLong text\n</skill>\n\nwith care'
    thread = Pi().read(ThreadBuilder("pi").user("/skill:review it").user(block).write(tmp_path))

    assert thread.skills == ("review", "tdd")
    assert said(thread) == [(1, "typed", "/skill:review it"), (2, "typed", "/skill:tdd with care")]


def test_a_call_without_result_is_settled_when_the_conversation_goes_on(tmp_path: Path) -> None:
    """Only the calls of the last answer can still run."""
    build = ThreadBuilder("pi").user("Go").background("make").user("And?").background("make serve")
    thread = Pi().read(build.write(tmp_path))

    assert [c[3] for c in calls(thread)] == ["unknown", "running"]


def test_parallel_results_may_come_in_any_order(tmp_path: Path) -> None:
    """Results find their calls by id."""
    build = ThreadBuilder("pi").user("Go").shell("one", "1").shell("two", "2", 1)
    messages = [r["message"] for r in build.records[-4:]]
    for record, index in zip(build.records[-4:], (0, 2, 3, 1), strict=True):
        record["message"] = messages[index]
    thread = Pi().read(build.write(tmp_path))

    assert calls(thread)[0] == (2, "bash", "one", "ok", 0)
    assert calls(thread)[1] == (3, "bash", "two", "error", 1)


def test_the_head_of_a_captured_session() -> None:
    """Name, words and context use come from both ends of the file."""
    head = Pi().read_head(thread_file(one("pi", "tui15-compaction-branch-label.jsonl")))

    assert head is not None
    assert head.id == "01a1ffd2-2ad2-7258-a34a-f7339ab9bf0b"
    assert head.first_words == "STEP-ONE please write the file (second line of the prompt)"
    assert (head.messages, head.context_tokens) == (15, 1802)
    assert head.name == "Greeting work"


def test_a_session_in_which_nobody_spoke_is_not_listed() -> None:
    """A successor that waits for its first prompt has a file and no conversation."""
    assert Pi().read_head(thread_file(one("pi", "unsent-handwritten-pi15-before.jsonl"))) is None


def test_sessions_are_found_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`PI_CODING_AGENT_DIR` is honoured, and every folder that a variable or settings name."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    for seed, cwd in enumerate(("/home/dev/proj", "/home/dev/other")):
        folder = tmp_path / "sessions" / build_folder_name(cwd)
        folder.mkdir(parents=True)
        ThreadBuilder("pi", cwd, seed).user("Hi").write(folder)

    assert len(list(Pi().list_files())) == 2
    project = tmp_path / "project"
    for seed, (place, settings) in enumerate(
        {"global": tmp_path, "own": project / ".pi"}.items(), 3
    ):
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "settings.json").write_text(json.dumps({"sessionDir": f"{tmp_path}/{place}"}))
        (tmp_path / place).mkdir()
        ThreadBuilder("pi", str(project), seed).user("Hi").write(tmp_path / place)
    assert len(list(Pi().list_files())) == 3
    assert len(list(Pi().list_files(project))) == 4
    assert Path(Pi().plan(request(cwd=str(project))).files[0].path).parent == tmp_path / "own"
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", str(tmp_path / "own"))
    assert len(list(Pi().list_files())) == 4


def request(**given: object) -> LaunchRequest:
    """What a user wants of a successor."""
    handoff = made(goal="Fix the login timeout", thread="t-1")
    known = {"handoff": handoff, "brief": "whole brief", "cwd": "/home/dev/proj"}
    return LaunchRequest(**{**known, "context": 'The "past"\n- #3 é', **given})  # type: ignore[arg-type]


def test_a_successor_is_a_session_file_and_a_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The custom message holds the past, the input the goal, unsent."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    plan = Pi().plan(request())
    (file,) = plan.files
    start, info, message = (json.loads(line) for line in file.content.splitlines())

    assert plan.argv == ("pi", "--session", file.path)
    assert plan.paste == "Fix the login timeout"
    folder = str(tmp_path / "sessions" / "--home-dev-proj--")
    assert re.fullmatch(
        rf"{folder}/\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{{3}}Z_{plan.thread_id}\.jsonl", file.path
    )
    assert (plan.thread_path, file.mode) == (file.path, 0o600)
    assert (start["type"], start["version"], start["cwd"]) == ("session", 3, "/home/dev/proj")
    assert (start["id"], "parentSession" in start) == (plan.thread_id, False)
    assert (info["type"], info["name"]) == ("session_info", "Fix the login timeout")
    assert (info["parentId"], message["parentId"]) == (None, info["id"])
    assert message["content"] == (
        '<handoff-context>\nThe "past"\n- #3 é\n</handoff-context>\n\n' + HANDOFF_CLOSING
    )
    assert (message["customType"], message["display"]) == ("handoff", True)
    assert message["details"]["predecessor"] == {
        "harness": "claude",
        "id": "t-1",
        "path": "/gone/t-1.jsonl",
    }


def test_a_successor_of_pi_names_its_parent() -> None:
    """The header points to the predecessor where that is a session of pi itself."""
    origin = Predecessor(harness="pi", thread_id="t", path="/s/t.jsonl")
    plan = Pi().plan(request(handoff=replace(made(), predecessor=origin)))

    assert json.loads(plan.files[0].content.splitlines()[0])["parentSession"] == "/s/t.jsonl"


def test_a_goal_that_is_sent_is_an_argument() -> None:
    """With the inherited skill before it."""
    handoff = made(goal="Fix it all")
    skilled = replace(handoff, draft=replace(handoff.draft, skill="tdd"))
    plan = Pi().plan(
        request(handoff=skilled, send=True, model="anthropic/claude", arguments=("-x",))
    )

    assert plan.argv[3:] == ("--model", "anthropic/claude", "-x", "/skill:tdd Fix it all")
    assert (plan.paste, plan.note) == ("", "")


@pytest.mark.parametrize("goal", ["@src/a.py is slow", "-v is ignored", "x" * 120_000])
def test_a_goal_that_pi_would_misread_is_shielded(goal: str) -> None:
    """`@` names a file and `-` an option on pi's command line, but for a blank; long goals are pasted."""
    plan = Pi().plan(request(handoff=made(goal=goal), send=True))
    sent = plan.argv[3:]

    assert (sent, plan.paste) == (((), goal) if len(goal) > 1000 else ((f" {goal}",), ""))


def test_ids_are_uuids_of_version_7() -> None:
    """They sort by time, as pi expects of its file names."""
    ids = [create_id() for _ in range(50)]

    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-.{12}", i) for i in ids)  # fmt: skip
    assert len(set(ids)) == 50
    assert sorted(i[:13] for i in ids) == [i[:13] for i in ids]


def test_the_way_back_and_the_sign_of_skills() -> None:
    """`pi --session FILE` and `/skill:name`."""
    thread = Thread(harness="pi", id="abc", path="/x.jsonl")

    assert Pi().build_resume_command(thread) == ("pi", "--session", "/x.jsonl")
    assert Pi().format_skill_command("review") == "/skill:review"


@pytest.mark.parametrize("path", corpus("pi"), ids=lambda p: p.name[:20])
def test_threads_of_the_corpus_read_whole(path: Path, tmp_path: Path) -> None:
    """No line of a real session is broken or unknown, and calls run only at its very end."""
    file = unzipped(path, tmp_path)
    thread = detect_harness(file).read(file)

    assert thread.harness == "pi"
    assert (thread.report.broken, thread.report.unknown) == ((), {})
    assert [e.ref for e in thread.entries] == list(range(1, len(thread.entries) + 1))
    running = [e.ref for e in thread.entries if e.tool and e.tool.status == "running"]
    assert running in ([], [len(thread.entries)])


@pytest.mark.skipif(not corpus("pi"), reason="no corpus")
def test_refs_are_those_people_wrote_down(tmp_path: Path) -> None:
    """A real session is numbered as a hand-written brief cites it."""
    (path,) = [p for p in corpus("pi") if "before-compaction" in p.name]
    thread = Pi().read(unzipped(path, tmp_path))

    assert by_ref(thread, 145).text.startswith("slight steering: why does unsubscribe clear")
    assert sum(e.kind == "user" for e in thread.entries if e.ref < 145) == 10
    assert "i would only want e2e tests for AgentSession" in by_ref(thread, 14).text
    assert tool(thread, 91).paths[0].endswith("core/agent-session.ts")
    assert tool(thread, 138).status == "error"
    assert [(e.ref, e.kept_from) for e in thread.entries if e.kind == "compaction"] == [
        (269, 214),
        (484, 427),
    ]


def test_a_session_without_its_header_reads(tmp_path: Path) -> None:
    """Its id is in the name of the file; that the folder is unknown is noted."""
    whole = ThreadBuilder("pi").user("Go").shell("make", "built").write(tmp_path)
    rest = whole.read_bytes().partition(b"\n")[2]
    path = tmp_path / "2026-11-21T20-38-17-725Z_01a1ffd4-c97c-737f-83de-bd69d30979b6.jsonl"
    path.write_bytes(rest)
    thread = detect_harness(path).read(path)

    assert thread.id == "01a1ffd4-c97c-737f-83de-bd69d30979b6"
    assert [e.text for e in thread.entries if e.kind == "user"] == ["Go"]
    assert thread.report.notes == ("the header of the session is missing, and with it the folder",)
