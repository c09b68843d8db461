"""Copilot CLI: event logs of 1.0, todos that are rows of a table, rewinds, forks, and successors."""

import json
from pathlib import Path

import pytest
from fixture_threads import FIXTURES, by_ref, calls, said, thread_file
from handoffs import made

from tasuki.errors import ThreadUnreadable
from tasuki.harness.copilot.adapter import Copilot
from tasuki.harness.copilot.format import read_workspace
from tasuki.harness.copilot.read import CopilotTodoTable
from tasuki.harness.protocol import LaunchRequest
from tasuki.harness.registry import detect_harness
from tasuki.model import Background, FileChange, Thread, Todo, ToolCall
from tasuki_testing import ThreadBuilder


def captured(name: str) -> Path:
    """The log of a captured session."""
    return FIXTURES / "copilot" / name / "events.jsonl"


def read(name: str) -> Thread:
    """A captured session."""
    return Copilot().read(captured(name))


def tool(thread: Thread, ref: int) -> ToolCall:
    """The call of an entry."""
    call = by_ref(thread, ref).tool
    assert call is not None
    return call


def built(build: ThreadBuilder, folder: Path) -> Thread:
    """A thread written down by a builder, and read."""
    return Copilot().read(build.write(folder))


def test_a_headless_session_is_read() -> None:
    """The start names folder, branch, commit, model and version."""
    thread = read("headless")

    assert said(thread) == [(1, "typed", "hello")]
    assert said(thread, "assistant") == [(2, "typed", "OK.")]
    assert (thread.id, thread.cwd) == ("1b51dd65-ca39-4e99-a4f6-d18cfd4402e2", "/home/dev/proj")
    assert (thread.git_branch, thread.git_head[:8]) == ("master", "74c73081")
    assert (thread.model, thread.version) == ("fake-model", "1.0.102")
    assert (thread.context_tokens, thread.context_window) == (12002, 128000)
    assert thread.report.unknown == {}


def test_calls_are_tied_to_their_results() -> None:
    """Copilot calls a command that failed a success; its exit code says otherwise."""
    thread = read("everything")

    assert [c for c in calls(thread) if c[1] == "bash"][:4] == [
        (5, "bash", "cat src/login.py && echo EXIT-OK", "error", 1),
        (11, "bash", "cat src/login.py && echo EXIT-OK", "ok", 0),
        (15, "bash", "rm -rf src", "aborted", None),
        (18, "bash", "rm -rf src", "refused", None),
    ]
    assert tool(thread, 11).output == "TIMEOUT = 5\nEXIT-OK"
    assert tool(thread, 9).changes == (
        FileChange(path="/home/dev/proj/src/login.py", kind="create", new="TIMEOUT = 5\n"),
    )
    assert tool(thread, 44).changes == (
        FileChange(
            path="/home/dev/proj/src/login.py", kind="edit", old="TIMEOUT = 5", new="TIMEOUT = 25"
        ),
    )
    assert [tool(thread, ref).kind for ref in (40, 41, 42)] == ["read", "search", "search"]
    assert (tool(thread, 47).status, tool(thread, 47).output) == ("error", "Path does not exist")


def test_who_speaks_is_told_apart() -> None:
    """Answers, feedback to a refusal and queued prompts have origins; autopilot's have no entry."""
    thread = read("everything")

    assert [s for s in said(thread) if s[1] != "typed"] == [
        (19, "answer", "no, keep it"),
        (37, "answer", 'asked "Which way?", the user answered "Right"'),
        (81, "queued", "STEP-QUEUED meanwhile"),
    ]
    assert [e.text for e in thread.entries[24:34]] == [
        "STEP-ASK", "Asking.", "", "STEP-ASK-DONE", *["OK."] * 5, "STEP-ASK two",
    ]  # fmt: skip


def test_the_users_own_commands_are_calls_of_theirs() -> None:
    """`!` runs a command in the shell, whose output Copilot gives as an error if it failed."""
    thread = read("everything")

    assert by_ref(thread, 74).origin == "command"
    assert calls(thread)[-1] == (74, "!", "echo from the user; exit 4", "error", 4)
    assert tool(thread, 74).output == "from the user"


def test_todos_are_what_the_statements_leave_behind() -> None:
    """The agent changes its list by SQL; each change shows the whole list."""
    thread = read("everything")

    assert [t.status for t in tool(thread, 51).todos or ()] == ["done", "in_progress", "pending"]
    assert tool(thread, 52).todos == (
        Todo(text="Raise the timeout", status="done"),
        Todo(text="Write a test", status="done"),
        Todo(text="Tell the user", status="pending"),
    )
    assert (tool(thread, 53).kind, tool(thread, 53).todos) == ("other", None)


@pytest.mark.parametrize(
    "query",
    [
        "ATTACH DATABASE 'x.db' AS x",
        "PRAGMA writable_schema = 1",
        "DROP TABLE todos",
        "CREATE TABLE more (a)",
        "INSERT INTO sqlite_master VALUES (1)",
        "DELETE FROM todos WHERE load_extension('x')",
        "INSERT INTO todos (id, title) SELECT 'z', randomblob(1000000000)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "INSERT INTO todos (id, title) SELECT i, i FROM n",
        "INSERT INTO todos (id, title) VALUES ('unfinished",
        "\0",
    ],
)
def test_statements_can_do_nothing_but_change_todos(
    query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever SQL a thread holds: no file, no schema, no function, no endless work."""
    monkeypatch.chdir(tmp_path)
    table = CopilotTodoTable()
    table.run_statements("INSERT INTO todos (id, title) VALUES ('a', 'Keep me')")
    table.run_statements(query)

    assert table.list_todos() == (Todo(text="Keep me", status="pending"),)
    assert list(tmp_path.iterdir()) == []


def test_a_list_that_grows_without_end_stops_growing() -> None:
    """The table has room for so many rows, and the list shows so many of them."""
    table = CopilotTodoTable()
    table.run_statements(f"INSERT INTO todos (title) VALUES ('{'x' * 50_000}')")
    for _ in range(3):
        table.run_statements("INSERT INTO todos (title) SELECT title FROM todos;" * 20)
    todos = table.list_todos()

    assert 1 < len(todos) <= 500
    assert all(len(t.text) <= 1000 for t in todos)


def test_several_statements_of_one_call_are_run_in_turn() -> None:
    """A `;` inside a text ends nothing, and what fails is passed over."""
    table = CopilotTodoTable()
    table.run_statements(
        "INSERT INTO todos (id, title) VALUES ('a', 'One; two'), ('b', 'Three');"
        "INSERT INTO nowhere VALUES (1);"
        "UPDATE todos SET status = 'in_progress', updated_at = datetime('now') WHERE id = 'b'"
    )

    assert [(t.text, t.status) for t in table.list_todos()] == [
        ("One; two", "pending"),
        ("Three", "in_progress"),
    ]


def test_sub_agents_and_background_commands_have_their_state() -> None:
    """A sub-agent's events stand in the same file, and none of them is an entry."""
    thread = read("everything")

    assert thread.background == (
        Background(id="5", kind="command", label="sleep 300", state="running", ref=60),
        Background(id="6", kind="command", label="sleep 2; echo over; exit 1", state="running", ref=64),
        Background(
            id="call_e7afab9b151246fd9f9f", kind="agent", label="Review it", state="done", ref=68
        ),
    )  # fmt: skip
    assert (tool(thread, 60).status, tool(thread, 60).background) == ("running", "5")
    assert not any("SIDECHAIN" in e.text for e in thread.entries)


def test_the_end_of_a_background_command_is_seen(tmp_path: Path) -> None:
    """A notification or a later look at the shell says how it ended."""
    build = (
        ThreadBuilder("copilot").user("Go").background("make", "done").background("run", "failed")
    )
    thread = built(build, tmp_path)

    assert [b.state for b in thread.background] == ["done", "failed"]


def test_interruptions_and_errors_are_notices() -> None:
    """Escape leaves `abort`, a failed request `session.error`."""
    thread = read("everything")

    assert [(n.after, n.kind, n.text) for n in thread.notices] == [
        (15, "interrupted", ""),
        (72, "interrupted", ""),
        (73, "interrupted", ""),
        (75, "error", "400 scripted bad request"),
    ]
    assert tool(thread, 72).status == "aborted"
    assert not thread.aborted


def test_a_compaction_is_an_entry_with_its_summary() -> None:
    """What lies before it is marked; a compaction that failed is an error."""
    thread = read("everything")

    assert [(e.ref, e.text) for e in thread.entries if e.kind == "compaction"] == [(76, "OK.")]
    assert sum(e.compacted for e in thread.entries) == 75


def test_a_fork_names_its_parent_and_has_its_own_name() -> None:
    """The first of both sessions is copied whole; what was rewound in it is gone from the file."""
    thread = read("forked-after-rewind")

    assert thread.parent == "a94440bc-5434-4422-84ac-904e2d1b5577"
    assert thread.name == "Branch two"
    assert said(thread)[-3:] == [
        (81, "typed", "STEP-REWOUND"),
        (83, "typed", "Review: # Handoff Context - line two STEP-SKILL"),
        (85, "typed", "STEP-FORKED"),
    ]
    assert thread.abandoned == 0


def test_a_rewind_that_is_an_event_leaves_the_numbers(tmp_path: Path) -> None:
    """Events that still stand in the file are left out from the one that was rewound to."""
    build = ThreadBuilder("copilot").user("One").assistant("Two").user("Three").assistant("Four")
    target = build.records[-3]["id"]
    build.raw(type="session.snapshot_rewind", data={"upToEventId": target, "eventsRemoved": 3})
    thread = built(build.user("Five"), tmp_path)

    assert [(e.ref, e.text) for e in thread.entries] == [(1, "One"), (2, "Two"), (5, "Five")]
    assert thread.abandoned == 2


def test_a_skill_keeps_the_brief_behind_it() -> None:
    """`/name` at the start of a prompt invokes a skill, and what was typed stays as it was."""
    thread = read("skill")

    assert said(thread) == [(1, "handoff", "/tdd # Handoff Context\n\n## Next\n- item STEP-D")]
    assert thread.skills == ("tdd",)


def test_a_name_is_what_the_first_prompt_is_not(tmp_path: Path) -> None:
    """Copilot names a session after its first prompt until somebody gives it a name."""
    path = ThreadBuilder("copilot").user("Fix the login\nplease").write(tmp_path)
    for noted, name in (
        ("name: |-\n  Fix the login\n  please\nuser_named: false\n", ""),
        ("name: 'Fix the login'\nuser_named: true\n", "Fix the login"),
        ('name: "Login: \\"timeout\\""\nuser_named: false\n', 'Login: "timeout"'),
        ("nonsense\n: :\n  more\n", ""),
    ):
        (tmp_path / "workspace.yaml").write_text(noted)
        head = Copilot().read_head(thread_file(path))

        assert head is not None
        assert head.name == Copilot().read(path).name == name


def test_the_workspace_file_says_where_a_session_is_now(tmp_path: Path) -> None:
    """A session may move to another work tree; its folder and branch are those of the file."""
    path = ThreadBuilder("copilot").user("Go").write(tmp_path)
    (tmp_path / "workspace.yaml").write_text("cwd: /home/dev/tree\nbranch: wip\n")
    thread = Copilot().read(path)

    assert (thread.cwd, thread.git_branch) == ("/home/dev/tree", "wip")
    assert read_workspace(tmp_path / "nowhere") == {}


def test_a_call_without_result_is_settled_when_the_conversation_goes_on(tmp_path: Path) -> None:
    """Only the calls of the last answer can still run."""
    build = ThreadBuilder("copilot").user("Go").agent("one", "running").user("And?")
    thread = built(build.agent("two", "running"), tmp_path)

    assert [c[3] for c in calls(thread)] == ["unknown", "running"]
    assert [b.state for b in thread.background] == ["failed", "running"]


def test_a_patch_is_a_text_or_a_field(tmp_path: Path) -> None:
    """Models that patch give the patch alone, or as an argument."""
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-1\n+2\n*** End Patch\n"
    build = ThreadBuilder("copilot").user("Go")
    for id, given in (("p1", patch), ("p2", {"input": patch})):
        request = {"toolCallId": id, "name": "apply_patch", "arguments": given}
        build.raw(type="assistant.message", data={"content": "", "toolRequests": [request]})
    thread = built(build, tmp_path)

    change = FileChange(path="a.py", kind="edit", old="1", new="2")
    assert [e.tool.changes for e in thread.entries if e.tool] == [(change,), (change,)]


@pytest.mark.parametrize(
    "data",
    [
        5, None, [], {"content": 5}, {"toolRequests": 5}, {"toolRequests": [{"name": []}]},
        {"content": "x", "toolRequests": [{"toolCallId": 1e400}]},
    ],
)  # fmt: skip
def test_an_event_of_wrong_types_is_reported_and_nothing_else_is_lost(
    data: object, tmp_path: Path
) -> None:
    """The line is a broken one; its neighbours stay."""
    build = ThreadBuilder("copilot").user("One")
    build.raw(type="assistant.message", data=data)
    text = build.user("Two").text().replace("Infinity", "1e400")
    path = tmp_path / "events.jsonl"
    path.write_text(text)
    thread = Copilot().read(path)

    assert [e.text for e in thread.entries] == ["One", "Two"]
    assert [b.line for b in thread.report.broken] == [3]


def test_a_log_without_its_start_is_unreadable(tmp_path: Path) -> None:
    """The first event names the session; without it nobody knows whose it is."""
    lines = captured("headless").read_bytes().splitlines(keepends=True)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(lines[1:]))

    with pytest.raises(ThreadUnreadable, match="holds no Copilot session"):
        Copilot().read(path)
    assert Copilot().read_head(thread_file(path)) is None


def test_the_head_of_a_captured_session() -> None:
    """Both ends say folder, words and size of the context."""
    head = Copilot().read_head(thread_file(captured("headless")))

    assert head is not None
    assert (head.id, head.cwd) == ("1b51dd65-ca39-4e99-a4f6-d18cfd4402e2", "/home/dev/proj")
    assert (head.first_words, head.name, head.messages) == ("hello", "", 2)
    assert (head.context_tokens, head.context_window) == (12002, 128000)


def test_sessions_are_found_where_copilot_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`COPILOT_HOME` is honoured; locks and empty logs are passed over."""
    monkeypatch.setenv("COPILOT_HOME", str(tmp_path))
    state = tmp_path / "session-state"
    for seed in (1, 2):
        build = ThreadBuilder("copilot", seed=seed).user("Hi")
        (state / build.id).mkdir(parents=True)
        build.write(state / build.id)
    (state / ".session-operation-locks").mkdir()
    (state / "empty").mkdir()
    (state / "empty" / "events.jsonl").touch()

    assert len(list(Copilot().list_files())) == 2
    assert {detect_harness(f.path).name for f in Copilot().list_files()} == {"copilot"}
    assert Copilot().list_skill_folders(Path("/p"))[3] == tmp_path / "skills"


def request(**given: object) -> LaunchRequest:
    """What a user wants of a successor."""
    known = {"handoff": made(), "brief": "the whole brief", "cwd": "/home/dev/proj"}
    return LaunchRequest(**{**known, "context": "the past", **given})  # type: ignore[arg-type]


def test_a_successor_gets_the_brief_unsent() -> None:
    """Copilot has no way to start with an unsent prompt: the brief is pasted."""
    plan = Copilot().plan(request())

    assert plan.argv == ("copilot",)
    assert (plan.paste, plan.files) == ("the whole brief", ())
    assert plan.note.startswith("Copilot CLI starts empty")


def test_a_brief_that_is_sent_is_an_argument() -> None:
    """A prompt that looks like a flag is tied to its option."""
    plan = Copilot().plan(request(send=True, model="gpt-x", arguments=("--allow-all-tools",)))
    dashed = Copilot().plan(request(send=True, brief="- a list"))

    assert plan.argv == (
        "copilot", "--model", "gpt-x", "--allow-all-tools", "-i", "the whole brief",
    )  # fmt: skip
    assert dashed.argv == ("copilot", "--interactive=- a list")
    assert (plan.paste, plan.note) == ("", "")


def test_the_way_back_and_the_sign_of_skills() -> None:
    """`copilot --resume=ID` and `/name`."""
    thread = Thread(harness="copilot", id="abc", path="/x/events.jsonl")

    assert Copilot().build_resume_command(thread) == ("copilot", "--resume=abc")
    assert Copilot().format_skill_command("review") == "/review"


def test_no_prompt_of_the_program_is_in_the_captured_sessions() -> None:
    """Copilot's licence keeps its prompts and tool descriptions: the fixtures hold none."""
    for path in (FIXTURES / "copilot").rglob("events.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            assert "transformedContent" not in record["data"]
            assert not (record["type"] == "system.message" and record["data"]["content"])
            assert not (record["type"].startswith("model.") and set(record["data"]) - {"kind"})
